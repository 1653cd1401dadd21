//! The mapping allocator of libdaxcache for daemons in Rust, over its C interface (`daxcache/daxcache.h`).
//!
//! A daemon of today hands set-ups and removals to a trait with a `map` and an `unmap`. [`fs_cache_req_handler!`] makes
//! a type with fuse-backend-rs's (`FsCacheReqHandler`, also that of the older virtiofsd and of Nydus and Dragonball),
//! [`mapper!`] one with crosvm's (`Mapper`); the daemon gives it where it gave its own:
//!
//! ```ignore
//! daxcache::fs_cache_req_handler!(
//!     Dax,
//!     fuse_backend_rs::transport::FsCacheReqHandler,
//!     fuse_backend_rs::abi::virtio_fs::RemovemappingOne
//! );
//! let window = Arc::new(Window::new(&Options { window_bytes: 8 << 30, ..Options::default() })?);
//! server.handle_message(reader, writer, Some(&mut Dax(window.clone())), None)?;
//! ```
//!
//! The traits tell of files by descriptor only, so a file is known by its device and inode (one `fstat` a set-up). That
//! is unique among files that are mapped: a mapped file keeps its inode. They do not tell of FORGET, so a daemon that
//! keeps removed ranges mapped (`lazy_unmap`) calls [`Window::evict`] where it drops an inode.
//!
//! The daemon's memory safety rests on what it does with the window's bytes, as with any memory shared with a guest:
//! this crate hands out an address and never a reference.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;

/// The C interface, as far as it is used here. Structs begin with their size; fields may be added behind the last.
mod ffi {
    use super::*;

    #[repr(C)]
    pub struct Window {
        _private: [u8; 0],
    }

    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    pub struct Extent {
        pub offset: u64,
        pub length: u64,
    }

    #[repr(C)]
    pub struct Options {
        pub size: usize,
        pub flags: u64,
        pub window_bytes: u64,
        pub max_window_bytes: u64,
        pub range_bytes: u64,
        pub seed: u64,
        pub policy: *const c_char,
        pub map_budget: u64,
        pub max_kept: u64,
        pub idle_ns: i64,
        pub backend: u32,
        pub address: *mut c_void,
    }

    #[repr(C)]
    pub struct SetupRequest {
        pub size: usize,
        pub identity: super::Identity,
        pub fd: c_int,
        pub access: u32,
        pub file_offset: u64,
        pub length: u64,
        pub window_offset: u64,
        pub file_size: i64,
        pub time_ns: i64,
    }

    #[link(name = "daxcache")]
    extern "C" {
        pub fn daxcache_version() -> *const c_char;
        pub fn daxcache_identify(fd: c_int, identity: *mut super::Identity, size: *mut i64) -> c_int;
        pub fn daxcache_create(
            options: *const Options,
            window: *mut *mut Window,
            why: *mut c_char,
            why_bytes: usize,
        ) -> c_int;
        pub fn daxcache_destroy(window: *mut Window);
        pub fn daxcache_address(window: *const Window) -> *mut c_void;
        pub fn daxcache_setup(window: *mut Window, request: *const SetupRequest) -> c_int;
        pub fn daxcache_remove(window: *mut Window, extents: *const Extent, count: usize) -> c_int;
        pub fn daxcache_remove_all(window: *mut Window) -> c_int;
        pub fn daxcache_evict(window: *mut Window, identity: *const super::Identity) -> c_int;
    }
}

const LAZY_UNMAP: u64 = 1 << 0;
const MAP_COUNT_WARN_ONLY: u64 = 1 << 1;

/// A mapping for writing; `flags` of FUSE_SETUPMAPPING.
pub const WRITE: u64 = 1;
/// A mapping for reading.
pub const READ: u64 = 2;

/// Which file: the same for the same file, and another for any other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity(pub [u64; 3]);

/// What a window is made with. Zeros and `None` are the usual.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What the guest sees; a multiple of a page.
    pub window_bytes: u64,
    /// Which range goes: a spec such as "lru"; Linux's own if there is none.
    pub policy: Option<String>,
    /// Of hashes: a random number where a guest may choose files and ranges.
    pub seed: u64,
    /// Keep removed ranges mapped until they are replaced.
    pub lazy_unmap: bool,
    /// Do not refuse a window that can exceed `vm.max_map_count`.
    pub map_count_warn_only: bool,
    /// VMAs for this window; 0: what is left of `vm.max_map_count`.
    pub map_budget: u64,
}

/// The version of the library.
pub fn version() -> String {
    // SAFETY: a string that lives as long as the library.
    unsafe { CStr::from_ptr(ffi::daxcache_version()) }.to_string_lossy().into_owned()
}

/// The window of one share, in this process.
pub struct Window(NonNull<ffi::Window>);

// SAFETY: the library's functions may be called from any thread at once; dropping takes the window by value.
unsafe impl Send for Window {}
unsafe impl Sync for Window {}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(result.wrapping_neg()))
    }
}

impl Window {
    /// A window in addresses that the library reserves.
    pub fn new(options: &Options) -> io::Result<Window> {
        // SAFETY: no address: the library reserves them.
        unsafe { Window::adopt(options, std::ptr::null_mut()) }
    }

    /// A window at `address`, or anywhere if that is null.
    ///
    /// # Safety
    /// `options.window_bytes` from there are reserved for nothing else, and stay so until the window is dropped.
    pub unsafe fn adopt(options: &Options, address: *mut c_void) -> io::Result<Window> {
        let policy = match &options.policy {
            Some(policy) => Some(CString::new(policy.as_str())?),
            None => None,
        };
        let given = ffi::Options {
            size: std::mem::size_of::<ffi::Options>(),
            flags: if options.lazy_unmap { LAZY_UNMAP } else { 0 }
                | if options.map_count_warn_only { MAP_COUNT_WARN_ONLY } else { 0 },
            window_bytes: options.window_bytes,
            max_window_bytes: 0,
            range_bytes: 0,
            seed: options.seed,
            policy: policy.as_ref().map_or(std::ptr::null(), |policy| policy.as_ptr()),
            map_budget: options.map_budget,
            max_kept: 0,
            idle_ns: 0,
            backend: 0,
            address,
        };
        let mut window = std::ptr::null_mut();
        let mut why: [c_char; 256] = [0; 256];
        let error = ffi::daxcache_create(&given, &mut window, why.as_mut_ptr(), why.len());
        match NonNull::new(window) {
            Some(window) if error == 0 => Ok(Window(window)),
            _ => {
                let kind = io::Error::from_raw_os_error(error.wrapping_neg()).kind();
                Err(io::Error::new(kind, CStr::from_ptr(why.as_ptr()).to_string_lossy().into_owned()))
            }
        }
    }

    /// Where the window begins, for the hypervisor.
    pub fn address(&self) -> *mut c_void {
        // SAFETY: the window is alive.
        unsafe { ffi::daxcache_address(self.0.as_ptr()) }
    }

    /// FUSE_SETUPMAPPING of an open file, which is known by its device and inode.
    pub fn map(&self, foffset: u64, moffset: u64, len: u64, flags: u64, fd: RawFd) -> io::Result<()> {
        let mut identity = Identity::default();
        let mut size = -1;
        // SAFETY: both are written, and not kept.
        check(unsafe { ffi::daxcache_identify(fd, &mut identity, &mut size) })?;
        self.map_file(identity, size, foffset, moffset, len, flags, fd)
    }

    /// The same of a file whose identity and size (-1: not known) the caller knows.
    #[allow(clippy::too_many_arguments)]
    pub fn map_file(
        &self,
        identity: Identity,
        size: i64,
        foffset: u64,
        moffset: u64,
        len: u64,
        flags: u64,
        fd: RawFd,
    ) -> io::Result<()> {
        let request = ffi::SetupRequest {
            size: std::mem::size_of::<ffi::SetupRequest>(),
            identity,
            fd,
            access: u32::try_from(flags).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
            file_offset: foffset,
            length: len,
            window_offset: moffset,
            file_size: size,
            time_ns: 0,
        };
        // SAFETY: the window is alive, and the request is read only during the call.
        check(unsafe { ffi::daxcache_setup(self.0.as_ptr(), &request) })
    }

    /// FUSE_REMOVEMAPPING: offsets and lengths. All are tried; the first error is returned.
    pub fn unmap(&self, extents: impl IntoIterator<Item = (u64, u64)>) -> io::Result<()> {
        let extents: Vec<ffi::Extent> =
            extents.into_iter().map(|(offset, length)| ffi::Extent { offset, length }).collect();
        // SAFETY: so many extents are there.
        check(unsafe { ffi::daxcache_remove(self.0.as_ptr(), extents.as_ptr(), extents.len()) })
    }

    /// FUSE_DESTROY, or a reset of the device.
    pub fn unmap_all(&self) -> io::Result<()> {
        // SAFETY: the window is alive.
        check(unsafe { ffi::daxcache_remove_all(self.0.as_ptr()) })
    }

    /// The file went away: its last FORGET, or its last name.
    pub fn evict(&self, identity: Identity) -> io::Result<()> {
        // SAFETY: the window is alive, and the identity is read only during the call.
        check(unsafe { ffi::daxcache_evict(self.0.as_ptr(), &identity) })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: nobody else has it any more.
        unsafe { ffi::daxcache_destroy(self.0.as_ptr()) }
    }
}

/// Defines a type with fuse-backend-rs's trait over an `Arc<Window>`: its name, the trait, the type of a removal.
#[macro_export]
macro_rules! fs_cache_req_handler {
    ($name:ident, $handler:path, $removal:ty) => {
        #[derive(Clone)]
        pub struct $name(pub std::sync::Arc<$crate::Window>);

        impl $handler for $name {
            fn map(
                &mut self,
                foffset: u64,
                moffset: u64,
                len: u64,
                flags: u64,
                fd: std::os::fd::RawFd,
            ) -> std::io::Result<()> {
                self.0.map(foffset, moffset, len, flags, fd)
            }
            fn unmap(&mut self, requests: Vec<$removal>) -> std::io::Result<()> {
                self.0.unmap(requests.iter().map(|removal| (removal.moffset, removal.len)))
            }
        }
    };
}

/// Defines a type with crosvm's trait over an `Arc<Window>`: its name, the trait, the type of a protection, and a
/// function that says whether one allows writing.
#[macro_export]
macro_rules! mapper {
    ($name:ident, $mapper:path, $protection:ty, $writable:expr) => {
        #[derive(Clone)]
        pub struct $name(pub std::sync::Arc<$crate::Window>);

        impl $mapper for $name {
            fn map(
                &self,
                mem_offset: u64,
                size: usize,
                fd: &dyn std::os::fd::AsRawFd,
                file_offset: u64,
                prot: $protection,
            ) -> std::io::Result<()> {
                let writable: fn(&$protection) -> bool = $writable;
                let flags = if writable(&prot) { $crate::READ | $crate::WRITE } else { $crate::READ };
                self.0.map(file_offset, mem_offset, size as u64, flags, fd.as_raw_fd())
            }
            fn unmap(&self, offset: u64, size: u64) -> std::io::Result<()> {
                self.0.unmap([(offset, size)])
            }
        }
    };
}
