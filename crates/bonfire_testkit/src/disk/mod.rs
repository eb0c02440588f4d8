//! Disks that forget, tear and fail, for tests of everything that saves through [`bonfire_store::disk::Disk`].
//!
//! | what | for |
//! |---|---|
//! | [`CrashDisk`], [`Explorer`] | every state that a crash may leave, after any prefix of the calls |
//! | [`FaultyDisk`] | the n-th call fails |
//! | [`BrokenDisk`] | a protocol with a step left out or two swapped: what an explorer must find |
//! | [`Step`], [`Promise`] | scripts over a store, and what must be there after a crash |
//!
//! # What a crash may leave
//!
//! The model is as pessimistic as the file systems in use, all of them together: ext4 in any mode, XFS, Btrfs, FAT, and
//! what POSIX allows.
//!
//! **Bytes.** Until a file is synced, each of its 512-byte sectors is, independently of all others, in any of the states
//! that it went through since the last sync: so writes are lost and reordered. A sector may be torn: its first bytes are
//! those of one state and the rest those of the next, or the other way round. A sector that had never been durable
//! may hold zeros or what another file left there. Bytes of a sector that a write does not change are never lost
//! ("powersafe overwrite": sectors do not become unreadable).
//!
//! **Length.** Any of the lengths since the last sync, independently of the bytes.
//!
//! **Names.** Until the directory is synced, each name means, independently of all others, any of the files (or none)
//! that it meant since the last sync. One thing is promised by a rename: while the old name is gone the new one is
//! there, or what was done to it later. So a file that was renamed may have both names, but never neither. The sync of a
//! file does nothing for its name.
//!
//! **Files.** A file that was never synced may be missing altogether, with every name that it has: a check of the file
//! system after the crash removes names that lead nowhere.
//!
//! **A failed sync.** See [`FaultyDisk`].
//!
//! What is not modelled: disks that say that they have written what they have not, and damage of what was durable.

mod broken;
mod crash;
mod explore;
mod faulty;
mod history;
mod random;
mod script;

pub use self::broken::{Breakage, BrokenDisk};
pub use self::crash::{CrashDisk, Operation};
pub use self::explore::{CrashState, Explorer};
pub use self::faulty::{Call, Fault, FaultyDisk, Plan, Repeat};
pub use self::history::{CrashPoint, CrashPoints};
pub use self::random::Random;
pub use self::script::{Blobs, Promise, Step, all_blobs, blobs_of, litter, random_step};
