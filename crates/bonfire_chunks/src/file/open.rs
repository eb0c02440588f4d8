//! Opens and closes a file.

use std::sync::Arc;

use bonfire::{Error, Result};
use bonfire_store::disk::{Access, Disk, DiskFile};

use super::chunk_file::{ChunkFile, FileOptions};
use super::commit_file::State;
use super::frame_reader::read_place;
use super::names::{TemporaryName, no_key, path_of, take_lock, write_error};
use super::pins::Pins;
use super::proof::ProofChain;
use super::recover::{Recovered, recover, recover_beside_a_writer};
use super::report::OpenReport;
use super::writer_state::WriterState;
use crate::format::{Flags, FrameKey, FrameKind, Header, Proof, decode_head};

impl ChunkFile {
    /// Opens a file that is there, and repairs it if it may be written to.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        name: &str,
        access: Access,
        options: FileOptions,
    ) -> Result<(Self, OpenReport)> {
        let lock = match access {
            Access::Read => None,
            Access::Write => Some(take_lock(&*disk, name)?),
        };
        let file = disk.open(name, access).map_err(write_error(&*disk, "open", name))?;
        let recovered = match access {
            Access::Write => recover(&*file, &options.recover_options()),
            Access::Read => recover_beside_a_writer(&*file, &options.recover_options()),
        };
        let mut recovered = recovered.map_err(|error| match error.is_io() {
            true => error.in_key(&path_of(&*disk, name)),
            false => error,
        })?;
        let header = match recovered.header.take() {
            Some(header) => header,
            None => lost_header(&*file, &recovered)?,
        };
        if access == Access::Write && recovered.seal.is_none() && header.flags.has(Flags::SEALED) {
            return Err(no_key(name));
        }
        options.check_trust(name, &recovered)?;
        let mut report = std::mem::take(&mut recovered.report);
        report.seal_outdated = recovered.is_seal_outdated();
        if report.seal_outdated {
            tracing::warn!(world = %name, "a chunk world is sealed in an old way: the next save seals it anew");
        }
        let state = State {
            file: file.into(),
            header: header.clone(),
            first_bytes: recovered.first_bytes,
            generation: recovered.generation,
            moves: 0,
            seal: recovered.seal.clone(),
            end: recovered.end,
            indices: std::mem::take(&mut recovered.indices),
            pins: Pins::default(),
        };
        let state = state.with_pins(&report.damaged).map_err(|error| error.in_key(&path_of(&*disk, name)))?;
        let chain = chain_of(&state, recovered.last_proof)?;
        let world = Self::new(disk, name, access, options, state);
        if let Some(lock) = lock {
            report.stale_files_removed = world.remove_stale()?;
            world.repair(WriterState::new(lock, header, &recovered, chain), &recovered, &report)?;
        }
        Ok((world, report))
    }

    /// Removes what a crash has left of new files. Returns their number.
    fn remove_stale(&self) -> Result<u32> {
        let failed = write_error(&*self.disk, "remove a temporary file of", &self.name);
        let mut removed = 0;
        for temporary in TemporaryName::ALL {
            match self.disk.remove(&temporary.beside(&self.name)) {
                Ok(()) => removed += 1,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if removed > 0 {
            self.disk.sync_dir().map_err(&failed)?;
        }
        Ok(removed)
    }

    /// Brings everything up to date and lets go of the file. `entities` is the entity section.
    pub(crate) fn close(&self, entities: Option<Vec<u8>>) -> Result<()> {
        if self.writer().is_none() {
            return Ok(());
        }
        let closed = self.with_writer(|writer| {
            self.next_file().abandon();
            let file = self.state().file.clone();
            let section = writer.checkpoint.header.entities;
            let is_listed = entities.as_ref().is_none_or(|entities| has_at(&*file, section, entities));
            if !writer.checkpoint.is_clean() || !is_listed {
                self.checkpoint(writer, entities)?;
            }
            let file = self.state().file.clone();
            writer.sync(&*file, &self.name)
        });
        *self.writer() = None;
        closed
    }
}

/// Returns true if these bytes are at this place already.
fn has_at(file: &dyn DiskFile, offset: u64, bytes: &[u8]) -> bool {
    let mut found = vec![0; bytes.len()];
    file.read_exact_at(&mut found, offset).is_ok() && found == bytes
}

/// Returns the chain of proofs that the next save goes on with.
fn chain_of(state: &State, last: Option<Proof>) -> Result<Option<ProofChain>> {
    let seal = state.seal.as_deref().filter(|seal| !seal.is_outdated());
    seal.map(|seal| ProofChain::resume(seal, &state.indices, last)).transpose()
}

/// The header of a file of which only frames are left.
fn lost_header(file: &dyn DiskFile, recovered: &Recovered) -> Result<Header> {
    let mut bytes = Vec::new();
    for (pos, place) in recovered.indices.of(FrameKind::Settings).iter().filter(|(pos, _)| pos.is_flat()) {
        if read_place(file, FrameKey::new(FrameKind::Settings, pos), place, &mut bytes).is_ok()
            && let Some(header) = decode_head(&bytes[4..])
        {
            // Settings from before the world was sealed anew do not say so.
            let is_proven = recovered.seal.is_some() && !recovered.is_seal_outdated();
            let flags = header.flags.0 | if is_proven { Flags::PROVEN } else { 0 };
            return Ok(Header { flags: Flags(flags), ..header });
        }
    }
    Err(Error::corrupt("the header is lost, and nothing is left that says what kind of world it was"))
}
