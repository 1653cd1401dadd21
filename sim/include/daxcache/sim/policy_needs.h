// The optional parts of a policy (daxcache/policy.h) that a driver has to serve.
#pragma once

namespace daxcache {
inline namespace v0 {

template <class P>
concept NeedsNextUse = requires {
  requires P::kNeedsNextUse;
};
template <class P>
concept NeedsTime = requires {
  requires P::kNeedsTime;
};
template <class P>
concept SeesFiles = requires {
  requires P::kSeesFiles;
};

}  // namespace v0
}  // namespace daxcache
