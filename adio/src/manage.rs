//! Size, space, sync, views and hints of an open file (MPI 4.1, 14.2.4 to 14.2.8, 14.3, 14.6).

use std::sync::Arc;

use capulet_atomic::Request as LockRequest;
use capulet_comm::{ErrorClass, MpiType};
use capulet_drivers::Caps;

use crate::agree::{Agreement, agree_on_outcome};
use crate::error::{Error, Result};
use crate::file::File;
use crate::hints::Hints;
use crate::mode::AccessMode;
use crate::view::FileView;

impl File {
    /// The length of the file in bytes. Local.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn size(&self) -> Result<u64> {
        if let Some(pages) = self.pages.get() {
            pages.refresh()?;
        }
        Ok(self.storage.len()?)
    }

    /// Truncates or extends the file to `bytes` bytes. Collective; blocks until the storage has done it.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a negative size, `MPI_ERR_NOT_SAME` if the sizes differ between ranks,
    /// `MPI_ERR_READ_ONLY`, `MPI_ERR_UNSUPPORTED_OPERATION` in sequential mode, and those of the storage.
    pub fn set_size(&self, bytes: i64) -> Result<()> {
        self.on_root("file size", bytes, |bytes| self.storage.set_len(bytes).map_err(Error::from))
    }

    /// Reserves space for the first `bytes` bytes. A shorter file grows to that size; no byte of the file
    /// changes. Collective; blocks until the storage has done it.
    ///
    /// # Errors
    /// As [`File::set_size`], and `MPI_ERR_NO_SPACE`.
    pub fn preallocate(&self, bytes: i64) -> Result<()> {
        self.on_root("size to preallocate", bytes, |bytes| {
            self.storage.preallocate(bytes).map_err(Error::from)
        })
    }

    /// Checks that all ranks pass the same size; then rank 0 calls `act`. `what` names the size in
    /// errors.
    fn on_root(&self, what: &'static str, bytes: i64, act: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        let own = self.check_resize(bytes);
        let value = *own.as_ref().unwrap_or(&0);
        let (bytes, _) = Agreement::new().same(what, value).agree(self.agree(), own)?;
        let is_root = self.group.rank().0 == 0;
        let act = || {
            // Resizing conflicts with accesses to the bytes that are added or removed (MPI 4.1, 14.6.1),
            // so it locks the file as a write does.
            let target = self.collective_target();
            let _guard = target.enter(LockRequest::whole)?;
            act(bytes)?;
            target.isolation.as_ref().map_or(Ok(()), |isolation| Ok(isolation.publish()?))
        };
        agree_on_outcome(self.agree(), if is_root { act() } else { Ok(()) })
    }

    fn check_resize(&self, bytes: i64) -> Result<u64> {
        let bytes = u64::try_from(bytes)
            .map_err(|_| Error::argument(ErrorClass::Arg, "the size of a file must not be negative"))?;
        self.refuse_sequential("resizing in sequential mode")?;
        self.check_writable("resize")?;
        Ok(bytes)
    }

    pub(crate) fn check_writable(&self, what: &'static str) -> Result<()> {
        if self.mode.writes() {
            return Ok(());
        }
        Err(Error::Denied { class: ErrorClass::ReadOnly, path: self.path.clone(), what })
    }

    /// Forces what all ranks wrote before to the device (MPI 4.1, 14.6.1), and shows each rank what others
    /// had forced there or closed before. Collective; blocks for the device. Agreements: two, and one more
    /// where nodes cache what they read.
    ///
    /// # Errors
    /// What the storage says, one class on all ranks. A file whose sync failed must be taken to have lost
    /// data.
    pub fn sync(&self) -> Result<()> {
        if self.force()? {
            agree_on_outcome(self.agree(), self.storage.refresh().map_err(Error::from))?;
        }
        Ok(())
    }

    /// Forces what all ranks wrote before to the device. Whether any node caches what it reads, the same on
    /// all ranks. Collective; blocks for the device.
    pub(crate) fn force(&self) -> Result<bool> {
        // all writes have been handed over before the first process of a node syncs for the whole node
        agree_on_outcome(self.agree(), Ok(()))?;
        let leads = self.group.node().is_leader();
        let synced =
            if leads && self.mode.writes() { self.storage.sync().map_err(Error::from) } else { Ok(()) };
        agree_on_outcome(self.agree(), synced)?;
        Ok(!self.common_caps.contains(Caps::IMMEDIATE_VISIBILITY))
    }

    /// Sets the view, and both file pointers to the start of the view (MPI 4.1, 14.3). Collective: the
    /// data representations and the extents of the etypes must be the same on all ranks. A rank whose
    /// arguments are wrong passes the error. `pairs` are hints that change with the view. The same
    /// agreement covers them, because programs set views often.
    ///
    /// # Errors
    /// As [`FileView::checked`]; `MPI_ERR_NOT_SAME`, for the hints too; `MPI_ERR_ARG` if, in sequential
    /// mode, the view does not begin at the shared file pointer, or if it does so in another mode. After
    /// an error the view and the hints are unchanged on all ranks.
    pub fn set_view_or(&self, request: Result<FileView>, pairs: &[(String, String)]) -> Result<()> {
        let is_sequential = self.mode.contains(AccessMode::SEQUENTIAL);
        let request = request.and_then(|view| match view.begins_here() {
            begins_here if begins_here == is_sequential => Ok(view),
            _ => Err(Error::argument(
                ErrorClass::Arg,
                "the displacement of a view must be MPI_DISPLACEMENT_CURRENT in sequential mode, and only then",
            )),
        });
        let (representation, extent) = match &request {
            Ok(view) => (view.representation() == "internal", view.etype().datatype().extent()),
            Err(_) => (false, 0),
        };
        let hints = self.changed_hints(pairs);
        let request = request.and_then(|view| self.prepare_shared_start().map(|()| view));
        let agreement = Agreement::new()
            .same("data representation", u64::from(representation))
            .same("extent of the etype", extent as u64)
            .same("hints", hints.digest());
        let (mut view, _) = agreement.agree(self.agree(), request)?;
        if is_sequential {
            // All ranks are in this call, so no rank moves the pointer.
            let here = self.shared_byte().and_then(|here| view.moved_to(here));
            view = agree_on_outcome(self.agree(), here)?;
        }
        let mut state = self.state();
        state.view = Arc::new(view);
        state.pointer_bytes = 0;
        self.switch_shared_word_in(&mut state);
        // False until `update_views_disjoint` has examined the new views.
        state.are_views_disjoint = false;
        self.put_hints(&mut state, hints);
        drop(state);
        self.update_views_disjoint()
    }

    /// Sets the view. Collective; see [`File::set_view_or`].
    ///
    /// # Errors
    /// As [`File::set_view_or`].
    pub fn set_view(
        &self,
        displacement: i64,
        etype: MpiType,
        filetype: MpiType,
        representation: &str,
    ) -> Result<()> {
        let writable = self.mode.writes();
        self.set_view_or(FileView::checked(displacement, etype, filetype, representation, writable), &[])
    }

    /// The view. Local.
    pub fn view(&self) -> Arc<FileView> {
        self.state().view.clone()
    }

    /// Changes hints. Collective. Ignores keys that cannot change while the file is open.
    ///
    /// # Errors
    /// `MPI_ERR_NOT_SAME` if the resulting hints would differ between ranks.
    pub fn set_info(&self, pairs: Result<Vec<(String, String)>>) -> Result<()> {
        let hints = pairs.map(|pairs| self.changed_hints(&pairs));
        let digest = hints.as_ref().map_or(0, Hints::digest);
        let (hints, _) = Agreement::new().same("hints", digest).agree(self.agree(), hints)?;
        self.put_hints(&mut self.state(), hints);
        Ok(())
    }

    fn changed_hints(&self, pairs: &[(String, String)]) -> Hints {
        let old = self.state().hints.clone();
        let mut hints = old.clone();
        hints.apply(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        // The list is fixed: ranks exchange the names of nodes only when they open the file.
        hints.config_list = old.config_list;
        hints
    }

    /// The extent of `datatype` in the file, in bytes (MPI 4.1, 14.5.1). Local.
    pub fn type_extent(&self, datatype: &MpiType) -> i64 {
        datatype.datatype().extent()
    }
}
