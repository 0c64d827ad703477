//! How a file is opened.

/// Which directions of transfer an open file allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reading alone.
    Read,
    /// Writing alone.
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
    /// Allowed directions.
    pub access: Access,
    /// Create the file if there is none.
    pub create: bool,
    /// With `create`: fail if the file is there already. Without `create` it has no effect.
    pub exclusive: bool,
    /// Permission bits of a file that is created, before the process's file mode creation mask takes its bits away.
    pub permissions: u32,
    /// Processes of this machine that may write to the file at the same time, as far as is known: what is the fastest way for one
    /// keeps several waiting for each other. Changes no result.
    pub writers: u32,
}

impl OpenOptions {
    /// Opens with the given access; creates nothing; permissions 0o666.
    pub const fn new(access: Access) -> Self {
        Self { access, create: false, exclusive: false, permissions: 0o666, writers: 1 }
    }

    /// Opens for reading.
    pub const fn read() -> Self {
        Self::new(Access::Read)
    }

    /// Opens for writing alone.
    pub const fn write() -> Self {
        Self::new(Access::Write)
    }

    /// Opens for both.
    pub const fn read_write() -> Self {
        Self::new(Access::ReadWrite)
    }

    /// Sets whether a missing file is created.
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets whether `create` fails on a file that is there.
    pub const fn exclusive(mut self, exclusive: bool) -> Self {
        self.exclusive = exclusive;
        self
    }

    /// Sets how many processes of this machine may write at the same time.
    pub const fn writers(mut self, writers: u32) -> Self {
        self.writers = writers;
        self
    }

    /// Sets the permission bits of a created file.
    pub const fn permissions(mut self, permissions: u32) -> Self {
        self.permissions = permissions;
        self
    }
}
