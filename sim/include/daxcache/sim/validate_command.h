// `daxsim validate` and `daxsim fit`: predictions beside published measurements, and the fit to them.
#pragma once

#include <string>
#include <vector>

namespace daxcache {
inline namespace v0 {

// `arguments`: from the word "validate" or "fit" on. The exit status.
int ValidateCommand(const std::vector<std::string>& arguments);

}  // namespace v0
}  // namespace daxcache
