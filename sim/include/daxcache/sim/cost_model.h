// What things cost: the physical parameters of the timed model, each a named number of nanoseconds. A profile is a file
// of them (sim/profiles/*.json). docs/model.md gives the equations in which they stand. None depends on the pattern,
// the number of jobs, or the size of the window or of a file: only on the engine of an access and its direction.
#pragma once

#include <array>
#include <string_view>

namespace daxcache {
inline namespace v0 {

template <class Costs>
struct CostField {
  std::string_view name;
  double Costs::*value;
  std::string_view help;
};

// virtiofs without DAX: what does not go through the window, as writes that extend their file, files without DAX,
// opens; and what recorded jobs pay beside their accesses.
struct DirectCosts {
  double request_ns = 0;  // the daemon handles a FUSE_READ, FUSE_WRITE, FUSE_OPEN, …
  double notify_ns = 0;   // from such a request until an idle daemon runs, and from its answer until the task does
  double page_ns = 0;     // … and so much more for each page read or written
  double fault_ns = 0;    // the guest maps a page of its page cache, or a range of the window, into a process
  double flush_ns = 0;    // a vCPU that runs is interrupted because something touched is unmapped, in guest or host
  double cache_ns = 0;    // the guest puts into its page cache what a read or fault has missed, or a call writes
  double fill_ns = 0;     // … and so much for each page that was fetched: allocates it, puts it in, makes it ready
  double attr_ns = 0;     // what a read that follows a write costs beside its FUSE_GETATTR; 0: it asks nothing

  using Field = CostField<DirectCosts>;
  static constexpr auto Fields() {
    return std::array{
        Field{"request_ns", &DirectCosts::request_ns, "the daemon handles a request other than these"},
        Field{"notify_ns", &DirectCosts::notify_ns, "the way of such a request to the daemon, or back"},
        Field{"page_ns", &DirectCosts::page_ns, "more for each 4 KiB of it"},
        Field{"fault_ns", &DirectCosts::fault_ns, "the guest maps a page or a range into a process"},
        Field{"flush_ns", &DirectCosts::flush_ns, "a vCPU is interrupted as something touched is unmapped"},
        Field{"cache_ns", &DirectCosts::cache_ns, "the guest's page cache takes up what was missed or is written"},
        Field{"fill_ns", &DirectCosts::fill_ns, "more for each 4 KiB that was fetched"},
        Field{"attr_ns", &DirectCosts::attr_ns, "a read after a write, beside its FUSE_GETATTR"},
    };
  }
};

// virtio-9p: each page is a request of its own, and each request waits for its answer, whatever the queue depth.
// Requests come and go as virtiofs' do (DirectCosts::notify_ns).
struct NinePCosts {
  double request_ns = 0;  // the VMM's main loop takes a request and gives its answer, one at a time
  double worker_ns = 0;   // in between one of its threads does what is asked, with any number of others
  double cache_ns = 0;    // the guest puts into its page cache what a read or fault has missed, or a call writes
  double dirty_ns = 0;    // … and so much longer what a call writes
  double fault_ns = 0;    // a page fault

  using Field = CostField<NinePCosts>;
  static constexpr auto Fields() {
    return std::array{
        Field{"request_ns", &NinePCosts::request_ns, "the VMM's main loop handles a request"},
        Field{"worker_ns", &NinePCosts::worker_ns, "a thread of the VMM does what it asks"},
        Field{"cache_ns", &NinePCosts::cache_ns, "the guest's page cache takes up what was missed or is written"},
        Field{"dirty_ns", &NinePCosts::dirty_ns, "more for what is written through it"},
        Field{"fault_ns", &NinePCosts::fault_ns, "a page fault"},
    };
  }
};

// virtio-scsi with vhost (daxcache/sim/vhost_scsi.h): block devices of the host instead of its files.
struct VhostScsiCosts {
  double read_ns = 0;   // the worker of an adapter handles a read of 4 KiB
  double write_ns = 0;  // … a write
  double share_ns = 0;  // every request holds up all adapters so long for every job
  double job_ns = 0;    // a job needs so much of its CPU for each

  using Field = CostField<VhostScsiCosts>;
  static constexpr auto Fields() {
    return std::array{
        Field{"read_ns", &VhostScsiCosts::read_ns, "an adapter's worker handles a read of 4 KiB"},
        Field{"write_ns", &VhostScsiCosts::write_ns, "an adapter's worker handles a write of 4 KiB"},
        Field{"share_ns", &VhostScsiCosts::share_ns, "every request holds up all adapters so long for every job"},
        Field{"job_ns", &VhostScsiCosts::job_ns, "a job's own work for each of its I/Os"},
    };
  }
};

struct CostModel {
  // The daemon, and the way to it and back.
  double service_ns = 0;    // handles FUSE_SETUPMAPPING, or FUSE_REMOVEMAPPING of a range
  double read_only_ns = 0;  // what either takes longer if the range is read-only
  double mmap_ns = 0;       // the part of either that holds the VMM's mmap lock, for which first touches wait
  double wake_ns = 0;  // from a wake-up until who was woken runs: an idle daemon that is notified, the requester when
                       // the answer has come, a guest task that another one wakes
  double zap_ns = 0;  // the guest looks for what a range is used for and written to, twice a reclaim; and so long again
                      // to take it out of page tables and TLBs, if it is there
  // An access of 4 KiB that is mapped and touched, with what the program itself does for it.
  double read_ns = 0;         // read(2)
  double write_ns = 0;        // write(2)
  double aio_ns = 0;          // what libaio adds to either
  double load_ns = 0;         // through mmap(2)
  double store_ns = 0;        // through mmap(2)
  double touch_ns = 0;        // the first touch of a page in a range: EPT violation; and so long again, or twice for a
                              // read, which brings its neighbours along, if the VMM has to take a page fault
  double far_ns = 0;          // what an access adds that does not follow the one before: TLB, page walk, caches
  double share_read_ns = 0;   // what every other task that runs adds to a read or load: memory, caches
  double share_write_ns = 0;  // … to a write or store
  DirectCosts direct = {};
  NinePCosts nine_p = {};
  VhostScsiCosts vhost_scsi = {};

  using Field = CostField<CostModel>;
  static constexpr auto Fields() {
    return std::array{
        Field{"service_ns", &CostModel::service_ns, "the daemon handles a set-up, or the removal of a range"},
        Field{"read_only_ns", &CostModel::read_only_ns, "more for either if the range is read-only"},
        Field{"mmap_ns", &CostModel::mmap_ns, "part of either under the VMM's mmap lock"},
        Field{"wake_ns", &CostModel::wake_ns, "from a wake-up until who was woken runs"},
        Field{"zap_ns", &CostModel::zap_ns,
              "takes a range from its file, twice a reclaim; from page tables as long again"},
        Field{"read_ns", &CostModel::read_ns, "read(2) of 4 KiB that is mapped"},
        Field{"write_ns", &CostModel::write_ns, "write(2) of 4 KiB that is mapped"},
        Field{"aio_ns", &CostModel::aio_ns, "what libaio adds to either"},
        Field{"load_ns", &CostModel::load_ns, "4 KiB read through mmap(2)"},
        Field{"store_ns", &CostModel::store_ns, "4 KiB written through mmap(2)"},
        Field{"touch_ns", &CostModel::touch_ns,
              "the first touch of a page of the window: an exit; a page fault of the host"},
        Field{"far_ns", &CostModel::far_ns, "more for an access that does not follow the one before"},
        Field{"share_read_ns", &CostModel::share_read_ns, "more for each other task that runs: reads and loads"},
        Field{"share_write_ns", &CostModel::share_write_ns, "more for each other task that runs: writes and stores"},
    };
  }
};

}  // namespace v0
}  // namespace daxcache
