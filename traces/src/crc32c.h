// CRC-32C (Castagnoli, polynomial 0x1EDC6F41, as in iSCSI, RFC 3720 B.4): the checksum of `.dxt` sections. Chosen
// because processors compute it (about 8 bytes every 3 cycles), and because it finds every error of up to 32 bits in a
// row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace daxcache {
inline namespace v0 {
namespace internal {

// Of `bytes`; with `crc`, of what that was computed over followed by `bytes`.
std::uint32_t Crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);

// The same without the processor's help, for processors that have none and for tests.
std::uint32_t Crc32cPortable(std::span<const std::byte> bytes, std::uint32_t crc = 0);

}  // namespace internal
}  // namespace v0
}  // namespace daxcache
