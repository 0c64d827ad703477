//! The options of an open.

/// The directions of transfer that an open file allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reading only.
    Read,
    /// Writing only.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// Whether bytes may be read.
    pub const fn readable(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether bytes may be written and the length changed.
    pub const fn writable(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }
}

/// The options of [`Driver::open`](crate::Driver::open).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// The allowed directions.
    pub access: Access,
    /// Create the file if it does not exist.
    pub create: bool,
    /// With `create`: fail if the file exists. Without `create` this has no effect.
    pub exclusive: bool,
    /// Permission bits of a created file, before the process's umask is applied.
    pub permissions: u32,
    /// How many processes of this machine may write to the file at the same time, as far as the caller knows.
    /// The driver chooses its method by this number, because the fastest method for one writer makes several
    /// writers wait for each other. No result depends on it.
    pub writers: u32,
    /// How many machines may write to the file at the same time, as far as the caller knows. On a storage that
    /// machines cache, the driver then keeps the cache such that [`DriverFile::refresh`] can discard it.
    ///
    /// [`DriverFile::refresh`]: crate::DriverFile::refresh
    pub machines: u32,
}

impl OpenOptions {
    /// Opens with the given access. Creates no file; permissions 0o666; one writer on one machine.
    pub const fn new(access: Access) -> Self {
        Self { access, create: false, exclusive: false, permissions: 0o666, writers: 1, machines: 1 }
    }

    /// Opens for reading.
    pub const fn read() -> Self {
        Self::new(Access::Read)
    }

    /// Opens for writing only.
    pub const fn write() -> Self {
        Self::new(Access::Write)
    }

    /// Opens for reading and writing.
    pub const fn read_write() -> Self {
        Self::new(Access::ReadWrite)
    }

    /// Sets whether a missing file is created.
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets whether `create` fails on a file that exists.
    pub const fn exclusive(mut self, exclusive: bool) -> Self {
        self.exclusive = exclusive;
        self
    }

    /// Sets how many processes of this machine may write at the same time.
    pub const fn writers(mut self, writers: u32) -> Self {
        self.writers = writers;
        self
    }

    /// Sets how many machines may write at the same time.
    pub const fn machines(mut self, machines: u32) -> Self {
        self.machines = machines;
        self
    }

    /// Sets the permission bits of a created file.
    pub const fn permissions(mut self, permissions: u32) -> Self {
        self.permissions = permissions;
        self
    }
}
