//! Answers the requests of the kernel.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyLock, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use nix::fcntl::renameat2;
use nix::sys::stat::{Mode, SFlag, mknod};
use nix::sys::statvfs::fstatvfs;

use crate::answers::{GENERATION, Handlers, finish, timespec};
use crate::control::{CONTROL, control_attributes, is_control};
use crate::inodes::ROOT;
use crate::locking;
use crate::locks::Range;
use crate::state::Changes;

impl Filesystem for Handlers {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let missing = |_| io::Error::other("this kernel's FUSE has no POSIX locks");
        config.add_capabilities(InitFlags::FUSE_POSIX_LOCKS).map_err(missing)
    }

    fn lookup(&self, _request: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found =
            if is_control(folder.0, name) { Ok(control_attributes()) } else { self.look_up(folder.0, name) };
        self.answer_entry(reply, found);
    }

    fn forget(&self, _request: &Request, inode: INodeNo, lookups: u64) {
        self.state().inodes.forget(inode.0, lookups);
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let found = if inode.0 == CONTROL { Ok(control_attributes()) } else { self.state().getattr(inode.0) };
        self.answer_attributes(reply, found);
    }

    fn setattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        access: Option<TimeOrNow>,
        modification: Option<TimeOrNow>,
        _change: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _creation: Option<SystemTime>,
        _change_of_flags: Option<SystemTime>,
        _backup: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let times = [access.map(timespec), modification.map(timespec)];
        let changes = Changes { mode, uid, gid, size, times };
        let found = if inode.0 == CONTROL {
            // A shell truncates the file before a write.
            Ok(control_attributes())
        } else {
            self.state().setattr(inode.0, &changes)
        };
        self.answer_attributes(reply, found);
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        // The path of an `O_PATH` descriptor of a symbolic link is no symbolic link itself, so that
        // readlink(2) needs an empty path.
        let target = self
            .state()
            .inodes
            .place(inode.0)
            .and_then(|place| nix::fcntl::readlinkat(place, "").map_err(io::Error::from));
        match target {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let kind = SFlag::from_bits_truncate(mode & libc::S_IFMT);
        let mode = Mode::from_bits_truncate(mode);
        self.make_entry(request, (folder, name), reply, |path| {
            mknod(path, kind, mode, u64::from(device)).map_err(Into::into)
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        self.make_entry(request, (folder, name), reply, |path| fs::DirBuilder::new().mode(mode).create(path));
    }

    fn symlink(&self, request: &Request, folder: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.make_entry(request, (folder, name), reply, |path| symlink(target, path));
    }

    fn link(&self, _request: &Request, inode: INodeNo, folder: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = (|| {
            let state = self.state();
            let flags = nix::fcntl::AtFlags::AT_EMPTY_PATH;
            nix::unistd::linkat(
                state.inodes.place(inode.0)?,
                "",
                state.inodes.place(folder.0)?,
                name,
                flags,
            )?;
            drop(state);
            self.look_up(folder.0, name)
        })();
        self.answer_entry(reply, made);
    }

    fn unlink(&self, _request: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        finish(reply, self.state().inodes.child(folder.0, name).and_then(fs::remove_file));
    }

    fn rmdir(&self, _request: &Request, folder: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        finish(reply, self.state().inodes.child(folder.0, name).and_then(fs::remove_dir));
    }

    fn rename(
        &self,
        _request: &Request,
        folder: INodeNo,
        name: &OsStr,
        new_folder: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let inodes = &self.state().inodes;
        let flags = nix::fcntl::RenameFlags::from_bits_retain(flags.bits());
        let renamed = inodes.place(folder.0).and_then(|from| {
            renameat2(from, name, inodes.place(new_folder.0)?, new_name, flags).map_err(Into::into)
        });
        finish(reply, renamed);
    }

    fn create(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.create_file(request, (folder.0, name), mode, flags) {
            Ok((found, handle)) => {
                let (handle, direct) = (FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO);
                // fuser has one time for names and attributes here.
                let time = self.attribute_time().min(self.entry_time());
                reply.created(&time, &found, GENERATION, handle, direct);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn open(&self, _request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = if inode.0 == CONTROL { Ok(0) } else { self.state().open(inode.0, flags.0) };
        match opened {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error.into()),
        }
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: u32,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.state();
        let data = if inode.0 == CONTROL {
            let mut bytes_of_control = state.control_bytes(offset);
            bytes_of_control.truncate(bytes as usize);
            Ok(bytes_of_control)
        } else {
            state.read(inode.0, offset, bytes as usize, flags.0)
        };
        match data {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.state();
        let written = if inode.0 == CONTROL {
            state.control(data)
        } else {
            state.write(inode.0, offset, data, flags.0)
        };
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        if inode.0 == CONTROL {
            return reply.ok();
        }
        let mut state = self.state();
        let flushed = state.flush(inode.0, handle.0);
        state.locks.end_owner((inode.0, owner.0));
        finish(reply, flushed);
    }

    fn release(
        &self,
        _request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.state().release(inode.0, handle.0);
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        finish(reply, self.state().sync(inode.0, handle.0));
    }

    fn opendir(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let mut state = self.state();
        match state.inodes.list(inode.0) {
            Ok(entries) => {
                let handle = state.new_handle();
                state.folders.insert(handle, entries);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let state = self.state();
        let entries = state.folders.get(&handle.0).map_or(&[][..], Vec::as_slice);
        for (place, entry) in entries.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(entry.inode), place as u64 + 1, entry.kind, &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.state().folders.remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        // The kernel asks for the root or for a file; both are in the file system of the backing folder.
        match self.state().inodes.place(ROOT).and_then(|place| fstatvfs(place).map_err(Into::into)) {
            Ok(found) => reply.statfs(
                found.blocks(),
                found.blocks_free(),
                found.blocks_available(),
                found.files(),
                found.files_free(),
                found.block_size() as u32,
                found.name_max() as u32,
                found.fragment_size() as u32,
            ),
            Err(error) => reply.error(error.into()),
        }
    }

    fn access(&self, _request: &Request, _inode: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        // The kernel checks permissions (`default_permissions`).
        reply.ok();
    }

    fn fallocate(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        finish(reply, self.state().fallocate(inode.0, mode, offset, bytes));
    }

    fn getlk(
        &self,
        _request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        last: u64,
        kind: i32,
        _process: u32,
        reply: ReplyLock,
    ) {
        if self.options.no_locks {
            return reply.error(Errno::ENOLCK);
        }
        let wanted = Range { start, last, kind };
        match locking::conflict(&self.state, (inode.0, owner.0), handle.0, wanted) {
            // The holder may be a process of another node, which has no number here.
            Ok(found) => reply.locked(found.start, found.last, found.kind, 0),
            Err(error) => reply.error(error.into()),
        }
    }

    fn setlk(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        last: u64,
        kind: i32,
        _process: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        if self.options.no_locks {
            return reply.error(Errno::ENOLCK);
        }
        let wanted = Range { start, last, kind };
        let waiting = sleep.then_some(request.pid());
        locking::set(&self.state, (inode.0, owner.0), handle.0, wanted, waiting, reply);
    }
}
