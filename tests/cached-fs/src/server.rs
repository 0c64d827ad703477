//! Mounts the file system and ends it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use nix::mount::{MntFlags, umount2};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};

use crate::Options;
use crate::answers::{Handlers, Shared, lock};
use crate::state::State;

/// A served mount.
#[derive(Debug)]
pub struct Mounted {
    state: Shared,
    session: BackgroundSession,
    mount_point: PathBuf,
}

/// Mounts `backing` at `mount_point` and serves it by threads of this process. Changes the umask and the
/// limit of open files of the process.
///
/// # Errors
/// If a folder cannot be opened, or if this user cannot mount.
pub fn mount(backing: &Path, mount_point: &Path, options: &Options) -> io::Result<Mounted> {
    let failed =
        |path: &Path, error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    if fs::metadata(mount_point).is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN)) {
        // A killed server has left its mount.
        umount2(mount_point, MntFlags::MNT_DETACH)?;
    }
    let mount_point = mount_point.canonicalize().map_err(|error| failed(mount_point, error))?;
    // The kernel has applied the umask of the program.
    umask(Mode::empty());
    // Each inode that the kernel knows takes a descriptor.
    let (_, limit) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, limit, limit)?;
    let state = State::new(backing, options.clone()).map_err(|error| failed(backing, error))?;
    let state = Arc::new(Mutex::new(state));
    let handlers = Handlers::new(Arc::clone(&state), options.clone());
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("cached-fs".to_owned()),
        MountOption::Subtype("cached-fs".to_owned()),
        MountOption::DefaultPermissions,
    ];
    config.acl = SessionACL::All;
    let session = Session::new(handlers, &mount_point, &config).and_then(Session::spawn);
    let session = session.map_err(|error| failed(&mount_point, error))?;
    if let Some(time) = options.write_back_ms {
        let state = Arc::clone(&state);
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_millis(time));
                lock(&state).write_back_all();
            }
        });
    }
    Ok(Mounted { state, session, mount_point })
}

impl Mounted {
    /// Whether the file system was unmounted.
    pub fn is_over(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Writes all dirty pages back, unmounts and ends this process. Programs that still have files open get
    /// `ENOTCONN`.
    pub fn end(self) -> ! {
        let mut state = lock(&self.state);
        state.write_back_all();
        // Without the mutex, no request makes another dirty page. The destructors of fuser would unmount
        // again, and then meet the mount below.
        if !self.is_over()
            && let Err(error) = umount2(&self.mount_point, MntFlags::MNT_DETACH)
        {
            eprintln!("cached-fs: {}: {error}", self.mount_point.display());
        }
        std::process::exit(0)
    }
}
