//! Blobs in IndexedDB.
//!
//! | step of a change | if the page dies after it |
//! |---|---|
//! | the bytes of new blobs are staged in parts, under an id that no blob has | the next opening removes them |
//! | one transaction checks the expectations and gives the names their new content: **complete** | the change is there |
//!
//! Both are transactions of strict durability: they are complete when the bytes are on the disk, as far as the browser can tell.
//! A small change is one transaction. A rename and a copy change names only.

mod change;
mod database;
mod read;

use std::ops::Range;

use bonfire::Result;
use bonfire_store::backend::{StoreFuture, check_name};
use bonfire_store::{Batch, BlobHead, Store, Version};
use bytes::Bytes;

use self::database::OpenDatabase;
use crate::mailbox::Mailbox;

/// A store in IndexedDB. Clones are the same store.
///
/// Everything of one origin shares its databases, whatever the path of the page is. So saves stay when the page moves.
#[derive(Clone)]
pub struct IndexedDbStore {
    name: String,
    database: Mailbox<OpenDatabase>,
}

impl IndexedDbStore {
    /// Opens a store, and creates it if there is none. Removes what calls have left that were interrupted.
    ///
    /// Fails with [`Error::is_io`] if the browser has no storage for this page, such as in some private windows, and with
    /// [`Error::is_newer_format`] if a newer version of this crate has made the store.
    ///
    /// [`Error::is_io`]: bonfire::Error::is_io
    /// [`Error::is_newer_format`]: bonfire::Error::is_newer_format
    pub async fn open(name: &str) -> Result<Self> {
        let database = OpenDatabase::open(name).await?;
        let database = Mailbox::new(database, OpenDatabase::close);
        database.call(async |database| change::remove_leftovers(&database).await).await?;
        Ok(Self { name: name.to_owned(), database })
    }

    /// Removes a store with everything in it. Waits until nothing has it open.
    pub async fn delete(name: &str) -> Result<()> {
        OpenDatabase::delete(name).await
    }

    /// Returns the name of the store.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Store for IndexedDbStore {
    fn change(&self, batch: Batch) -> StoreFuture<'_, Vec<Option<Version>>> {
        Box::pin(self.database.call(async move |database| change::change(&database, &batch).await))
    }

    fn get<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Bytes> {
        let name = name.to_owned();
        Box::pin(self.database.call(async move |database| {
            check_name(&name)?;
            read::read(&database, &name, 0..u64::MAX).await
        }))
    }

    fn get_range<'a>(&'a self, name: &'a str, range: Range<u64>) -> StoreFuture<'a, Bytes> {
        let name = name.to_owned();
        Box::pin(self.database.call(async move |database| {
            check_name(&name)?;
            read::read(&database, &name, range).await
        }))
    }

    fn head<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Option<BlobHead>> {
        let name = name.to_owned();
        Box::pin(self.database.call(async move |database| {
            check_name(&name)?;
            let record = read::record(&database, &name).await?;
            Ok(record.map(|record| {
                let len = record.len();
                BlobHead { len, readable: len, version: record.version() }
            }))
        }))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> StoreFuture<'a, Vec<String>> {
        let prefix = prefix.to_owned();
        Box::pin(self.database.call(async move |database| {
            let all = read::names(&database).await?;
            Ok(all.into_keys().filter(|name| name.starts_with(&prefix)).collect())
        }))
    }
}
