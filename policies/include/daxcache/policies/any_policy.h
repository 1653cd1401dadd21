// A policy that is chosen at run time, by its spec, behind one virtual call an event: for drivers whose own work is far
// dearer than that (the timed engine), so that they are compiled once and not once a policy. Hot loops take the policy
// itself, through `Dispatch`.
//
//   Window<AnyPolicy<DenseIndex>> window(space, options, {.spec = spec, .files = facts});
//
// The spec must be one that ParsePolicySpec has accepted. Time and space: the policy's own, and one allocation.
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "daxcache/access.h"
#include "daxcache/file_rules.h"
#include "daxcache/ids.h"
#include "daxcache/policies/builtin.h"
#include "daxcache/policies/spec.h"
#include "daxcache/policy.h"

namespace daxcache {
inline namespace v0 {

template <class Index_>
class AnyPolicy {
 public:
  using Index = Index_;
  using Key = typename Index::Key;
  static constexpr std::string_view kName = "any";
  static constexpr std::string_view kSummary = "the policy that a spec names";
  static constexpr Repeats kRepeats = Repeats::kEach;

  struct Options {
    PolicySpec spec;
    std::span<const FileFacts> files = {};  // by FileId, for policies that see files; borrowed

    [[nodiscard]] absl::Status Validate() const {
      return Dispatch<Index>(spec, []<class P>(const typename P::Options&) { return absl::OkStatus(); });
    }
  };

  AnyPolicy(const Options& options, const typename Index::Space& space, std::uint32_t max_slots) {
    [[maybe_unused]] const absl::Status status = Dispatch<Index>(options.spec, [&]<class P>(typename P::Options own) {
      if constexpr (requires { own.files; }) own.files = options.files;
      policy_ = std::make_unique<Holder<P>>(own, space, max_slots);
      return absl::OkStatus();
    });
    assert(status.ok());
  }

  void OnResize(std::uint32_t slots) { policy_->OnResize(slots); }
  void OnMap(SlotId slot, const Key& key, const Touch& touch) { policy_->OnMap(slot, key, touch); }
  void OnHit(SlotId slot, const Touch& touch) { policy_->OnHit(slot, touch); }
  void OnMiss(const Key& key, const Touch& touch) { policy_->OnMiss(key, touch); }
  bool Admit(const Key& key, const Touch& touch, std::uint32_t free_slots) {
    return policy_->Admit(key, touch, free_slots);
  }
  void OnUnmap(SlotId slot, const Key& key, Unmap why) { policy_->OnUnmap(slot, key, why); }
  SlotId Victim(const Incoming<Key>* incoming, const auto& candidates) {
    return policy_->Victim(incoming, CandidatesOf<std::decay_t<decltype(candidates)>>(candidates));
  }
  [[nodiscard]] absl::Status CheckInvariants() const { return policy_->CheckInvariants(); }

  Repeats repeats() const { return policy_->repeats; }  // the policy's own kRepeats

  // Whether it wants the news of files below (see per_file.h); else they change nothing.
  bool sees_files() const { return policy_->sees_files; }
  bool UsesWindow(FileId file) { return policy_->UsesWindow(file); }
  void OnNonDax(const Touch& touch) { policy_->OnNonDax(touch); }
  bool OnOpen(FileId file, std::uint64_t size) { return policy_->OnOpen(file, size); }
  bool OnClose(FileId file) { return policy_->OnClose(file); }
  void OnEvict(FileId file) { policy_->OnEvict(file); }

 private:
  class Candidates {
   public:
    virtual bool operator()(SlotId) const = 0;
    virtual bool one_file() const = 0;
    virtual SlotId LowestOffset() const = 0;

   protected:
    ~Candidates() = default;
  };
  template <class Own>
  class CandidatesOf final : public Candidates {
   public:
    explicit CandidatesOf(const Own& own) : own_(own) {}
    bool operator()(SlotId slot) const override { return own_(slot); }
    bool one_file() const override { return own_.one_file(); }
    SlotId LowestOffset() const override { return own_.LowestOffset(); }

   private:
    const Own& own_;
  };

  class Interface {
   public:
    Interface(bool files, Repeats own_repeats) : sees_files(files), repeats(own_repeats) {}
    virtual ~Interface() = default;
    virtual void OnResize(std::uint32_t slots) = 0;
    virtual void OnMap(SlotId slot, const Key& key, const Touch& touch) = 0;
    virtual void OnHit(SlotId slot, const Touch& touch) = 0;
    virtual void OnMiss(const Key& key, const Touch& touch) = 0;
    virtual bool Admit(const Key& key, const Touch& touch, std::uint32_t free_slots) = 0;
    virtual void OnUnmap(SlotId slot, const Key& key, Unmap why) = 0;
    virtual SlotId Victim(const Incoming<Key>* incoming, const Candidates& candidates) = 0;
    virtual absl::Status CheckInvariants() const = 0;
    virtual bool UsesWindow(FileId) { return true; }
    virtual void OnNonDax(const Touch&) {}
    virtual bool OnOpen(FileId, std::uint64_t) { return false; }
    virtual bool OnClose(FileId) { return false; }
    virtual void OnEvict(FileId) {}

    const bool sees_files;
    const Repeats repeats;
  };

  template <class P>
  class HolderBase : public Interface {
   public:
    HolderBase(const typename P::Options& options, const typename Index::Space& space, std::uint32_t max_slots)
        : Interface(SeesFiles<P>, P::kRepeats), policy_(options, space, max_slots) {}
    void OnResize(std::uint32_t slots) override { policy_.OnResize(slots); }
    void OnMap(SlotId slot, const Key& key, const Touch& touch) override { policy_.OnMap(slot, key, touch); }
    void OnHit(SlotId slot, const Touch& touch) override { policy_.OnHit(slot, touch); }
    void OnMiss(const Key& key, const Touch& touch) override { policy_.OnMiss(key, touch); }
    bool Admit(const Key& key, const Touch& touch, std::uint32_t free_slots) override {
      return policy_.Admit(key, touch, free_slots);
    }
    void OnUnmap(SlotId slot, const Key& key, Unmap why) override { policy_.OnUnmap(slot, key, why); }
    SlotId Victim(const Incoming<Key>* incoming, const Candidates& candidates) override {
      return policy_.Victim(incoming, candidates);
    }
    absl::Status CheckInvariants() const override { return policy_.CheckInvariants(); }

   protected:
    P policy_;
  };
  template <class P>
  class Holder final : public HolderBase<P> {
   public:
    Holder(const typename P::Options& options, const typename Index::Space& space, std::uint32_t max_slots)
        : HolderBase<P>(options, space, max_slots) {}
  };
  template <SeesFiles P>
  class Holder<P> final : public HolderBase<P> {
   public:
    Holder(const typename P::Options& options, const typename Index::Space& space, std::uint32_t max_slots)
        : HolderBase<P>(options, space, max_slots) {}
    bool UsesWindow(FileId file) override { return this->policy_.UsesWindow(file); }
    void OnNonDax(const Touch& touch) override { this->policy_.OnNonDax(touch); }
    bool OnOpen(FileId file, std::uint64_t size) override { return this->policy_.OnOpen(file, size); }
    bool OnClose(FileId file) override { return this->policy_.OnClose(file); }
    void OnEvict(FileId file) override { this->policy_.OnEvict(file); }
  };

  std::unique_ptr<Interface> policy_;
};

}  // namespace v0
}  // namespace daxcache
