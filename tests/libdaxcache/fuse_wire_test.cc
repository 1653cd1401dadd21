// The bytes of FUSE messages, held up against the kernel's own structs (linux/fuse.h) and against bytes written out.
#include "daxcache/fuse_wire.h"

#include <linux/fuse.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace daxcache {
namespace {

using testing::ElementsAreArray;

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

template <class Message>
std::vector<std::byte> Encoded(const Message& message) {
  std::vector<std::byte> bytes(Message::kBytes);
  Encode(message, std::span<std::byte, Message::kBytes>(bytes.data(), Message::kBytes));
  return bytes;
}

TEST(FuseWire, NumbersAreLittleEndianAtAnyAddress) {
  const std::vector<std::byte> bytes = Bytes({0, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0xf8});
  const auto at = [&]<std::size_t kSize>() { return std::span<const std::byte, kSize>(bytes.data() + 1, kSize); };
  EXPECT_EQ(LoadLittleEndian<std::uint16_t>(at.operator()<2>()), 0x0201u);
  EXPECT_EQ(LoadLittleEndian<std::uint32_t>(at.operator()<4>()), 0x04030201u);
  EXPECT_EQ(LoadLittleEndian<std::uint64_t>(at.operator()<8>()), 0xf807060504030201u);
  std::array<std::byte, 4> stored;
  StoreLittleEndian<std::int32_t>(-13, stored);
  EXPECT_THAT(stored, ElementsAreArray(Bytes({0xf3, 0xff, 0xff, 0xff})));
  EXPECT_EQ(LoadLittleEndian<std::int32_t>(stored), -13);
}

TEST(FuseWire, NumbersOfTheProtocol) {
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kLookup), FUSE_LOOKUP);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kForget), FUSE_FORGET);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kGetattr), FUSE_GETATTR);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kSetattr), FUSE_SETATTR);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kSymlink), FUSE_SYMLINK);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kMknod), FUSE_MKNOD);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kMkdir), FUSE_MKDIR);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kLink), FUSE_LINK);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kInit), FUSE_INIT);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kCreate), FUSE_CREATE);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kDestroy), FUSE_DESTROY);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kBatchForget), FUSE_BATCH_FORGET);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kSetupMapping), FUSE_SETUPMAPPING);
  EXPECT_EQ(static_cast<std::uint32_t>(FuseOpcode::kRemoveMapping), FUSE_REMOVEMAPPING);
  EXPECT_EQ(kSetupMappingWrite, static_cast<std::uint64_t>(FUSE_SETUPMAPPING_FLAG_WRITE));
  EXPECT_EQ(kSetupMappingRead, static_cast<std::uint64_t>(FUSE_SETUPMAPPING_FLAG_READ));
  EXPECT_EQ(kFuseMapAlignment, static_cast<std::uint64_t>(FUSE_MAP_ALIGNMENT));
  EXPECT_EQ(kFuseInitExt, static_cast<std::uint64_t>(FUSE_INIT_EXT));
  EXPECT_EQ(kFuseHasInodeDax, std::uint64_t{1} << 33);
  EXPECT_EQ(kFuseAttrDax, static_cast<std::uint32_t>(FUSE_ATTR_DAX));
}

// Random bytes, read as the kernel's struct and by us.
template <class Message, class Kernel>
void SameAs(void (*compare)(const Message&, const Kernel&)) {
  static_assert(std::endian::native == std::endian::little, "the kernel's structs are in the host's byte order");
  static_assert(Message::kBytes <= sizeof(Kernel));
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    std::array<std::byte, sizeof(Kernel)> bytes;
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    Kernel kernel;
    std::memcpy(&kernel, bytes.data(), sizeof(kernel));
    const auto message = Decode<Message>(std::span(bytes).template first<Message::kBytes>());
    compare(message, kernel);
    EXPECT_THAT(Encoded(message), ElementsAreArray(std::span(bytes).template first<Message::kBytes>()));
  }
}

TEST(FuseWire, HeadersLieAsInTheKernel) {
  static_assert(FuseInHeader::kBytes == sizeof(fuse_in_header) && FuseOutHeader::kBytes == sizeof(fuse_out_header));
  SameAs<FuseInHeader, fuse_in_header>(+[](const FuseInHeader& ours, const fuse_in_header& kernel) {
    EXPECT_EQ(ours.len, kernel.len);
    EXPECT_EQ(ours.opcode, kernel.opcode);
    EXPECT_EQ(ours.unique, kernel.unique);
    EXPECT_EQ(ours.nodeid, kernel.nodeid);
    EXPECT_EQ(ours.uid, kernel.uid);
    EXPECT_EQ(ours.gid, kernel.gid);
    EXPECT_EQ(ours.pid, kernel.pid);
  });
  SameAs<FuseOutHeader, fuse_out_header>(+[](const FuseOutHeader& ours, const fuse_out_header& kernel) {
    EXPECT_EQ(ours.len, kernel.len);
    EXPECT_EQ(ours.error, kernel.error);
    EXPECT_EQ(ours.unique, kernel.unique);
  });
}

TEST(FuseWire, MappingsLieAsInTheKernel) {
  static_assert(FuseSetupMapping::kBytes == sizeof(fuse_setupmapping_in));
  static_assert(FuseRemoveMapping::kBytes == sizeof(fuse_removemapping_in));
  static_assert(FuseRemoveMappingEntry::kBytes == sizeof(fuse_removemapping_one));
  SameAs<FuseSetupMapping, fuse_setupmapping_in>(+[](const FuseSetupMapping& ours, const fuse_setupmapping_in& kernel) {
    EXPECT_EQ(ours.fh, kernel.fh);
    EXPECT_EQ(ours.foffset, kernel.foffset);
    EXPECT_EQ(ours.len, kernel.len);
    EXPECT_EQ(ours.flags, kernel.flags);
    EXPECT_EQ(ours.moffset, kernel.moffset);
  });
  SameAs<FuseRemoveMapping, fuse_removemapping_in>(
      +[](const FuseRemoveMapping& ours, const fuse_removemapping_in& kernel) { EXPECT_EQ(ours.count, kernel.count); });
  SameAs<FuseRemoveMappingEntry, fuse_removemapping_one>(
      +[](const FuseRemoveMappingEntry& ours, const fuse_removemapping_one& kernel) {
        EXPECT_EQ(ours.moffset, kernel.moffset);
        EXPECT_EQ(ours.len, kernel.len);
      });
}

TEST(FuseWire, ForgetsLieAsInTheKernel) {
  static_assert(FuseForget::kBytes == sizeof(fuse_forget_in));
  static_assert(FuseBatchForget::kBytes == sizeof(fuse_batch_forget_in));
  static_assert(FuseForgetEntry::kBytes == sizeof(fuse_forget_one));
  SameAs<FuseForget, fuse_forget_in>(
      +[](const FuseForget& ours, const fuse_forget_in& kernel) { EXPECT_EQ(ours.nlookup, kernel.nlookup); });
  SameAs<FuseBatchForget, fuse_batch_forget_in>(
      +[](const FuseBatchForget& ours, const fuse_batch_forget_in& kernel) { EXPECT_EQ(ours.count, kernel.count); });
  SameAs<FuseForgetEntry, fuse_forget_one>(+[](const FuseForgetEntry& ours, const fuse_forget_one& kernel) {
    EXPECT_EQ(ours.nodeid, kernel.nodeid);
    EXPECT_EQ(ours.nlookup, kernel.nlookup);
  });
}

TEST(FuseWire, InitLiesAsInTheKernel) {
  static_assert(FuseInitIn::kWireBytes == sizeof(fuse_init_in) && FuseInitOut::kWireBytes == sizeof(fuse_init_out));
  static_assert(FuseInitIn::kShortBytes == offsetof(fuse_init_in, flags2));
  static_assert(offsetof(fuse_init_out, map_alignment) == 30);
  SameAs<FuseInitIn, fuse_init_in>(+[](const FuseInitIn& ours, const fuse_init_in& kernel) {
    EXPECT_EQ(ours.major, kernel.major);
    EXPECT_EQ(ours.minor, kernel.minor);
    EXPECT_EQ(ours.max_readahead, kernel.max_readahead);
    EXPECT_EQ(ours.flags, kernel.flags);
    EXPECT_EQ(ours.flags2, kernel.flags2);
  });
  SameAs<FuseInitOut, fuse_init_out>(+[](const FuseInitOut& ours, const fuse_init_out& kernel) {
    EXPECT_EQ(ours.major, kernel.major);
    EXPECT_EQ(ours.minor, kernel.minor);
    EXPECT_EQ(ours.max_readahead, kernel.max_readahead);
    EXPECT_EQ(ours.flags, kernel.flags);
    EXPECT_EQ(ours.max_background, kernel.max_background);
    EXPECT_EQ(ours.congestion_threshold, kernel.congestion_threshold);
    EXPECT_EQ(ours.max_write, kernel.max_write);
    EXPECT_EQ(ours.time_gran, kernel.time_gran);
    EXPECT_EQ(ours.max_pages, kernel.max_pages);
    EXPECT_EQ(ours.map_alignment, kernel.map_alignment);
    EXPECT_EQ(ours.flags2, kernel.flags2);
  });
}

TEST(FuseWire, FlagsAboveThirtyTwoBitsCountOnlyIfSaidSo) {
  EXPECT_EQ((FuseInitIn{.flags = 1, .flags2 = 2}).all_flags(), 1u);
  EXPECT_EQ((FuseInitIn{.flags = 1u << 30, .flags2 = 2}).all_flags(), (std::uint64_t{1} << 30) | kFuseHasInodeDax);
}

TEST(FuseWire, TheDaxFlagIsInTheLastWordOfTheAttributes) {
  static_assert(kFuseAttrBytes == sizeof(fuse_attr) && offsetof(fuse_attr, flags) == kFuseAttrBytes - 4);
  static_assert(kFuseEntryAttrOffset == offsetof(fuse_entry_out, attr));
  static_assert(kFuseAttrOutAttrOffset == offsetof(fuse_attr_out, attr));
  std::array<std::byte, kFuseAttrBytes> attr;
  attr.fill(std::byte{0xff});
  SetDaxAttr(attr, false);
  EXPECT_FALSE(HasDaxAttr(attr));
  EXPECT_EQ(attr[84], std::byte{0xfd});  // and no other bit
  for (std::size_t i = 0; i < attr.size(); ++i) EXPECT_TRUE(i == 84 || attr[i] == std::byte{0xff}) << i;
  attr.fill({});
  SetDaxAttr(attr, true);
  EXPECT_TRUE(HasDaxAttr(attr));
  EXPECT_EQ(attr[84], std::byte{0x02});
}

TEST(FuseWire, RequestsAreWhole) {
  EXPECT_THAT(SetupMappingRequest(0x11, 0x22, {.foffset = 0x200000, .len = 0x200000, .flags = 3, .moffset = 0x400000}),
              ElementsAreArray(Bytes({80,   0,    0,    0,    48,   0,    0,    0,     //
                                      0x11, 0,    0,    0,    0,    0,    0,    0,     //
                                      0x22, 0,    0,    0,    0,    0,    0,    0,     //
                                      0,    0,    0,    0,    0,    0,    0,    0,     // uid, gid
                                      0,    0,    0,    0,    0,    0,    0,    0,     // pid, extensions
                                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,  // no file handle
                                      0,    0,    0x20, 0,    0,    0,    0,    0,     //
                                      0,    0,    0x20, 0,    0,    0,    0,    0,     //
                                      3,    0,    0,    0,    0,    0,    0,    0,     //
                                      0,    0,    0x40, 0,    0,    0,    0,    0})));
  const std::vector<FuseRemoveMappingEntry> entries{{.moffset = 0x600000, .len = 0x200000}, {.moffset = 0, .len = 1}};
  const auto removal = RemoveMappingRequest(7, 8, entries);
  ASSERT_EQ(removal.size(), 40u + 4 + 2 * 16);
  EXPECT_EQ(removal[0], std::byte{76});
  EXPECT_EQ(removal[40], std::byte{2});
  EXPECT_EQ(removal[46], std::byte{0x60});  // the entries begin behind the four bytes of the count
  EXPECT_EQ(removal[68], std::byte{1});
  EXPECT_EQ(ForgetRequest(1, 2, 3).size(), 48u);
  const std::vector<FuseForgetEntry> forgotten{{.nodeid = 9, .nlookup = 1}};
  const auto batch = BatchForgetRequest(1, forgotten);
  ASSERT_EQ(batch.size(), 40u + 8 + 16);
  EXPECT_EQ(batch[48], std::byte{9});
  EXPECT_EQ(InitRequest(1, {}).size(), 40u + 64);
  EXPECT_EQ(DestroyRequest(1).size(), 40u);
}

}  // namespace
}  // namespace daxcache
