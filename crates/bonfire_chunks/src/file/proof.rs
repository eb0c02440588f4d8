//! Proofs of a sealed file: that a commit, a header or the state after a commit is what somebody with the key has written.
//!
//! The state of a file is where each frame is. A number that nobody without the key knows stands for each entry, and their sum
//! for the state, so that a save adds and takes away what it changes. Every commit proves itself, names the one before it, and
//! proves the sum after it; a checkpoint proves its sum and its header once more. Who opens the file goes any way that leads
//! to a state, and believes it if its sum is the proven one.

use std::sync::Arc;

use bonfire::{Error, Result};

use super::indices::Indices;
use super::report::DamagedFrame;
use super::seal::{FrameSum, Seal, SealKey};
use crate::format::{Commit, CommitProof, Flags, FrameKey, FramePlace, HEADER_BYTES, Header, Proof, take};

/// The data of an entity section without entities.
const NO_ENTITIES: [u8; 8] = [0; 8];

/// The last commit of a sealed file, and the sum of its state.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProofChain {
    last: Proof,
    sum: FrameSum,
}

impl ProofChain {
    /// The chain of a file without commits, whose frames are these.
    pub(super) fn begin(seal: &Seal, indices: &Indices) -> Result<Self> {
        Ok(Self { last: Proof::default(), sum: sum_of(seal, indices, &[])? })
    }

    /// The chain of a file whose last commit is known.
    pub(super) fn resume(seal: &Seal, indices: &Indices, last: Option<Proof>) -> Result<Self> {
        Ok(Self { last: last.unwrap_or_default(), ..Self::begin(seal, indices)? })
    }

    /// Returns the chain with the sum after a commit. `before` is where frames were.
    pub(super) fn with_entries<'e>(
        mut self,
        seal: &Seal,
        before: &Indices,
        entries: impl Iterator<Item = &'e (FrameKey, FramePlace)>,
    ) -> Result<Self> {
        for (key, place) in entries {
            if let Some(old) = before.get(*key) {
                self.sum.remove(seal.sum_of(*key, &old)?);
            }
            if !place.is_nowhere() {
                self.sum.add(seal.sum_of(*key, place)?);
            }
        }
        Ok(self)
    }

    /// Proves a commit whose data is to be at `offset`, and makes it the last one.
    pub(super) fn prove(
        &mut self,
        seal: &Seal,
        commit: &mut Commit,
        generation: u64,
        offset: u64,
    ) -> Result<()> {
        commit.proof = Some(CommitProof { previous: self.last, ..CommitProof::default() });
        let own = seal.prove(&commit_statement(commit, generation, offset))?;
        let state = seal.prove(&state_statement(generation, self.sum))?;
        commit.proof = Some(CommitProof { previous: self.last, own, state });
        self.last = own;
        Ok(())
    }

    /// Returns the data of the entity section of a checkpoint, which proves the header that will lead to it.
    pub(super) fn section(&self, seal: &Seal, header: &Header, generation: u64) -> Result<Vec<u8>> {
        let header = seal.prove(&header_statement(&header.encode(), generation))?;
        let state = seal.prove(&state_statement(generation, self.sum))?;
        Ok([&NO_ENTITIES[..], &header, &state].concat())
    }
}

/// The proofs in an entity section.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectionProof {
    generation: u64,
    header: Proof,
    state: Proof,
}

impl SectionProof {
    pub(super) fn decode(mut data: &[u8], generation: u64) -> Option<Self> {
        let bytes = &mut data;
        let _: [u8; NO_ENTITIES.len()] = take(bytes)?;
        Some(Self { generation, header: take(bytes)?, state: take(bytes)? })
    }
}

/// The state that a file claims, to be held against what was found in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimedState {
    pub(super) generation: u64,
    pub(super) state: Proof,
}

/// The seal of a file that is being opened: unknown until a commit says how the file is sealed.
pub(super) struct FileSeal<'k> {
    key: Option<&'k SealKey>,
    seal: Option<Arc<Seal>>,
}

impl<'k> FileSeal<'k> {
    pub(super) fn new(key: Option<&'k SealKey>) -> Self {
        Self { key, seal: None }
    }

    /// For a file that was sealed just now.
    pub(super) fn known(seal: &Arc<Seal>) -> Self {
        Self { key: None, seal: Some(seal.clone()) }
    }

    pub(super) fn get(&self) -> Option<&Arc<Seal>> {
        self.seal.as_ref()
    }

    /// Returns true if there is nothing to be proven: without a key, or in a file of version 1.
    pub(super) fn proves_nothing(&self) -> bool {
        match &self.seal {
            Some(seal) => seal.is_outdated(),
            None => self.key.is_none(),
        }
    }

    fn proven(&self) -> Option<&Seal> {
        self.seal.as_deref().filter(|seal| !seal.is_outdated())
    }

    /// Returns true if a commit is one of this file. The first one says how the file is sealed: only one key is tried, as
    /// that may take long.
    pub(super) fn has_made(&mut self, commit: &Commit, generation: u64, offset: u64) -> Result<bool> {
        if let (Some(key), None, false) = (self.key, &self.seal, commit.seal.is_empty()) {
            self.seal = Some(Arc::new(Seal::of_file(key, &commit.seal)?));
        }
        let Some(seal) = self.proven() else { return Ok(true) };
        let Some(proof) = &commit.proof else { return Ok(false) };
        Ok(seal.is_proof(&proof.own, &commit_statement(commit, generation, offset)))
    }

    /// Refuses a file that is not sealed though there is a key.
    pub(super) fn check_flags(&self, header: &Header) -> Result<()> {
        if self.key.is_some() && !header.flags.has(Flags::SEALED) {
            return Err(Error::wrong_key("this world is not sealed: somebody without a key has written it"));
        }
        Ok(())
    }

    /// Refuses a file of which no commit has said how it is sealed, though there is a key.
    pub(super) fn check_found(&self) -> Result<()> {
        if self.key.is_some() && self.seal.is_none() {
            return Err(Error::corrupt("nothing is left that says how this world is sealed"));
        }
        Ok(())
    }

    /// Returns true if the file proves that frames are where they were found, or if it proves nothing at all.
    pub(super) fn proves_state(
        &self,
        claimed: Option<ClaimedState>,
        indices: &Indices,
        damaged: &[DamagedFrame],
    ) -> bool {
        let Some(seal) = self.proven() else { return self.proves_nothing() };
        let Some(ClaimedState { generation, state }) = claimed else { return false };
        let sum = sum_of(seal, indices, damaged);
        sum.is_ok_and(|sum| seal.is_proof(&state, &state_statement(generation, sum)))
    }

    /// Returns true if the file proves its header, or proves nothing at all.
    pub(super) fn proves_header(
        &self,
        header: &[u8; HEADER_BYTES as usize],
        section: Option<&SectionProof>,
        of_commits: &[[u8; HEADER_BYTES as usize]],
    ) -> bool {
        let Some(seal) = self.proven() else { return self.proves_nothing() };
        let by_section = |section: &SectionProof| {
            seal.is_proof(&section.header, &header_statement(header, section.generation))
        };
        section.is_some_and(by_section) || of_commits.contains(header)
    }
}

impl SectionProof {
    pub(super) fn claimed(&self) -> ClaimedState {
        ClaimedState { generation: self.generation, state: self.state }
    }
}

/// Sums up where all frames are. A damaged frame is where it was written.
fn sum_of(seal: &Seal, indices: &Indices, damaged: &[DamagedFrame]) -> Result<FrameSum> {
    let mut sum = FrameSum::default();
    let damaged = damaged.iter().map(|frame| (frame.key, frame.place));
    for (key, place) in indices.iter().chain(damaged) {
        sum.add(seal.sum_of(key, &place)?);
    }
    Ok(sum)
}

/// The first bytes of a statement tell its meaning.
fn commit_statement(commit: &Commit, generation: u64, offset: u64) -> Vec<u8> {
    [&b"commit  "[..], &generation.to_le_bytes(), &offset.to_le_bytes(), &commit.statement()].concat()
}

fn state_statement(generation: u64, sum: FrameSum) -> Vec<u8> {
    [&b"state   "[..], &generation.to_le_bytes(), &sum.to_bytes()].concat()
}

fn header_statement(header: &[u8; HEADER_BYTES as usize], generation: u64) -> Vec<u8> {
    [&b"header  "[..], &generation.to_le_bytes(), header].concat()
}
