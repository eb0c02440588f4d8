//! Changes: bytes first, names last.

use std::collections::{BTreeMap, BTreeSet};

use bonfire::{Error, Result};
use bonfire_store::backend::{Change, check_case, check_expectations, check_name};
use bonfire_store::{Batch, Payload, Version};
use js_sys::{Array, Uint8Array};
use wasm_bindgen::prelude::*;

use super::database::{Access, OpenDatabase, PART_BYTES, Record, Segment, Work, id_of_key};
use super::read::names_in;
use crate::event::{finished, of_browser};

/// Fewer bytes than these are written together with the names.
const STAGED_FROM: u64 = PART_BYTES;

/// Makes all changes of a batch, or none.
pub(super) async fn change(database: &OpenDatabase, batch: &Batch) -> Result<Vec<Option<Version>>> {
    batch.check()?;
    let new = new_segments(batch)?;
    let bytes: u64 = new.values().map(|(segment, _)| segment.len).sum();
    let is_staged = bytes >= STAGED_FROM;
    let made = async {
        if is_staged {
            let work = database.begin(Access::Write)?;
            for (segment, payload) in new.values() {
                write(&work, segment, payload).await?;
            }
            work.complete().await?;
        }
        switch(database, batch, &new, is_staged).await
    };
    let made = made.await;
    match &made {
        Ok(_) => new.values().for_each(|(_, payload)| payload.add_written(payload.len())),
        // What this cannot remove, the next opening does.
        Err(_) if is_staged => {
            drop(remove_segments(database, new.values().map(|(segment, _)| *segment)).await)
        }
        Err(_) => {}
    }
    made
}

/// The bytes that a batch brings, by the name of their blob.
type NewSegments<'b> = BTreeMap<&'b str, (Segment, &'b Payload)>;

fn new_segments(batch: &Batch) -> Result<NewSegments<'_>> {
    let mut new = BTreeMap::new();
    for change in batch.changes() {
        if let Change::Put { name, payload } | Change::Append { name, payload, .. } = change {
            new.insert(&**name, (Segment::new(payload.len())?, payload));
        }
    }
    Ok(new)
}

/// Writes the bytes of a segment, part by part. Between two parts the page goes on.
async fn write(work: &Work, segment: &Segment, payload: &Payload) -> Result<()> {
    let mut pieces = payload.parts().iter().map(|piece| &piece[..]).filter(|piece| !piece.is_empty());
    let mut piece = pieces.next().unwrap_or_default();
    for part in 0..segment.parts {
        let len = PART_BYTES.min(segment.len - u64::from(part) * PART_BYTES) as u32;
        let bytes = Uint8Array::new_with_length(len);
        let mut at = 0;
        while at < len {
            let step = piece.len().min((len - at) as usize);
            let (here, rest) = piece.split_at(step);
            bytes.subarray(at, at + step as u32).copy_from(here);
            at += step as u32;
            piece = if rest.is_empty() { pieces.next().unwrap_or_default() } else { rest };
        }
        let request = work.parts.put(&bytes, &segment.key(part));
        finished(&request.map_err(|error| of_browser("save a part", &error))?).await?;
    }
    Ok(())
}

/// Checks what is expected, and gives names their new content.
async fn switch(
    database: &OpenDatabase,
    batch: &Batch,
    new: &NewSegments<'_>,
    is_staged: bool,
) -> Result<Vec<Option<Version>>> {
    let work = database.begin(Access::Write)?;
    match change_names(&work, batch, new, is_staged).await {
        Ok(versions) => work.complete().await.map(|()| versions),
        Err(error) => {
            work.abort();
            Err(error)
        }
    }
}

async fn change_names(
    work: &Work,
    batch: &Batch,
    new: &NewSegments<'_>,
    is_staged: bool,
) -> Result<Vec<Option<Version>>> {
    let before = names_in(work).await?;
    let names: Vec<String> = before.keys().cloned().collect();
    let version = |name: &str| Ok(before.get(name).map(Record::version));
    check_expectations(batch.expectations(), &names, version)?;
    let mut after = before.clone();
    let made = batch.changes().iter().map(|change| make(&mut after, change, new)).collect::<Result<_>>()?;
    for (segment, payload) in new.values() {
        if is_staged {
            check_staged(work, segment).await?;
        } else {
            write(work, segment, payload).await?;
        }
    }
    store_names(work, &before, &after)?;
    Ok(made)
}

/// Another page may have taken staged parts for leftovers.
async fn check_staged(work: &Work, segment: &Segment) -> Result<()> {
    let keys = work.parts.get_all_keys(&segment.keys()?);
    let keys = finished(&keys.map_err(|error| of_browser("look at parts", &error))?).await?;
    match keys.dyn_ref::<Array>().map(Array::length) == Some(segment.parts) {
        true => Ok(()),
        false => Err(Error::conflict("another page has removed what was about to be saved: save again")),
    }
}

/// Makes a change, and returns the version of the blob that it made or removed.
fn make(
    all: &mut BTreeMap<String, Record>,
    change: &Change,
    new: &NewSegments<'_>,
) -> Result<Option<Version>> {
    let segment = |name: &String| new.get(&**name).map(|(segment, _)| *segment);
    match change {
        Change::Put { name, .. } => {
            check_case(name, all.keys().map(String::as_str))?;
            let record = Record(segment(name).into_iter().collect());
            let version = record.version();
            all.insert(name.clone(), record);
            Ok(Some(version))
        }
        Change::Append { name, expected_len, .. } => {
            check_case(name, all.keys().map(String::as_str))?;
            let record = all.entry(name.clone()).or_default();
            if record.len() != *expected_len {
                return Err(Error::conflict(format!("`{name}` was changed by another program")));
            }
            record.0.extend(segment(name));
            Ok(None)
        }
        Change::Copy { from, to } => {
            let record = find(all, from)?.clone();
            check_free(all, to)?;
            let version = record.version();
            all.insert(to.clone(), record);
            Ok(Some(version))
        }
        Change::Rename { from, to } => {
            let record = find(all, from)?.clone();
            check_free(all, to)?;
            all.remove(from);
            let version = record.version();
            all.insert(to.clone(), record);
            Ok(Some(version))
        }
        Change::Remove { name } => Ok(all.remove(name).map(|record| record.version())),
    }
}

fn find<'a>(all: &'a BTreeMap<String, Record>, name: &str) -> Result<&'a Record> {
    check_name(name)?;
    all.get(name).ok_or_else(|| {
        let nothing = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no such save");
        Error::io(format_args!("cannot open `{name}`"), nothing)
    })
}

fn check_free(all: &BTreeMap<String, Record>, name: &str) -> Result<()> {
    if all.contains_key(name) {
        return Err(Error::conflict(format!("`{name}` exists already")));
    }
    check_case(name, all.keys().map(String::as_str))
}

/// Stores the names that differ, and removes the bytes that no name has any more.
fn store_names(
    work: &Work,
    before: &BTreeMap<String, Record>,
    after: &BTreeMap<String, Record>,
) -> Result<()> {
    let failed = |error: JsValue| of_browser("save a name", &error);
    for (name, record) in after.iter().filter(|(name, record)| before.get(*name) != Some(record)) {
        work.names.put(&record.encode(), &name.into()).map_err(failed)?;
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        work.names.delete(&name.into()).map_err(failed)?;
    }
    let used: BTreeSet<u64> = ids(after).collect();
    let old = before.values().flat_map(|record| &record.0).filter(|segment| !used.contains(&segment.id));
    for segment in old {
        work.parts.delete(&segment.keys()?).map_err(failed)?;
    }
    Ok(())
}

fn ids(all: &BTreeMap<String, Record>) -> impl Iterator<Item = u64> + '_ {
    all.values().flat_map(|record| &record.0).map(|segment| segment.id)
}

async fn remove_segments(database: &OpenDatabase, segments: impl Iterator<Item = Segment>) -> Result<()> {
    let work = database.begin(Access::Write)?;
    for segment in segments {
        work.parts.delete(&segment.keys()?).map_err(|error| of_browser("remove parts", &error))?;
    }
    work.complete().await
}

/// Removes the parts of changes that were interrupted.
pub(super) async fn remove_leftovers(database: &OpenDatabase) -> Result<()> {
    let work = database.begin(Access::Write)?;
    let keys = work.parts.get_all_keys(&JsValue::UNDEFINED);
    let keys = keys.map_err(|error| of_browser("look for leftovers", &error))?;
    let all = names_in(&work).await?;
    let keys: Array = finished(&keys).await?.unchecked_into();
    let used: BTreeSet<u64> = ids(&all).collect();
    for key in keys.iter().filter(|key| id_of_key(key).is_none_or(|id| !used.contains(&id))) {
        work.parts.delete(&key).map_err(|error| of_browser("remove leftovers", &error))?;
    }
    work.complete().await
}
