//! Stands in for sealing in a build without it: no key exists, so none of this is ever called.

use bonfire::Result;

#[derive(Clone, Debug)]
pub(crate) enum SealKey {}

#[derive(Clone, Debug)]
pub(crate) enum NoCounter {}

impl NoCounter {
    pub(super) fn newest(&self, _: &str) -> Result<u64> {
        match *self {}
    }

    pub(super) fn advance(&self, _: &str, _: u64) -> Result<()> {
        match *self {}
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameSum(());

impl FrameSum {
    pub(super) fn add(&mut self, _: Self) {}

    pub(super) fn remove(&mut self, _: Self) {}

    pub(super) fn to_bytes(self) -> [u8; 32] {
        [0; 32]
    }
}

pub(super) struct FrameSealer(SealKey);

impl FrameSealer {
    pub(super) fn new(key: &SealKey) -> Result<Self> {
        match *key {}
    }

    pub(super) fn open(key: &SealKey, _: &[u8]) -> Result<Self> {
        match *key {}
    }

    pub(super) fn for_next_file(&self) -> Result<Self> {
        match self.0 {}
    }

    pub(super) fn info(&self) -> &[u8] {
        match self.0 {}
    }

    pub(super) fn is_outdated(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn seal(&self, _: &[u8], _: &[u8], _: u64) -> Result<Vec<u8>> {
        match self.0 {}
    }

    pub(super) fn sign(&self, _: &[u8], _: &[u8], _: u64) -> Result<Vec<u8>> {
        match self.0 {}
    }

    pub(super) fn open_in_place<'b>(&self, _: &'b mut [u8], _: &[u8], _: u64) -> Result<&'b [u8]> {
        match self.0 {}
    }

    pub(super) fn open_signed<'b>(&self, _: &'b [u8], _: &[u8], _: u64) -> Result<&'b [u8]> {
        match self.0 {}
    }

    pub(super) fn take_over(&self, _: &mut [u8], _: &[u8], _: u64, _: &Self, _: u64) -> Result<()> {
        match self.0 {}
    }

    pub(super) fn sum(&self, _: &[u8]) -> Result<FrameSum> {
        match self.0 {}
    }

    pub(super) fn prove(&self, _: &[u8]) -> Result<[u8; 32]> {
        match self.0 {}
    }

    pub(super) fn is_proof(&self, _: &[u8; 32], _: &[u8]) -> bool {
        match self.0 {}
    }
}
