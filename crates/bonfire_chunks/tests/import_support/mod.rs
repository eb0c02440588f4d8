//! Files that bevy_pixel_world wrote, what the manifest says about them, and the generator that they were made with.

use std::path::PathBuf;

use bonfire_chunks::import::pixel_world::{PixelChunk, PixelContent, PixelPayload};
use bonfire_chunks::{Body, ChunkPos};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

pub(crate) const CELLS_BYTES: usize = 512 * 512 * 4;

pub(crate) fn path(file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/foreign/pixel_world")).join(file)
}

pub(crate) fn bytes(file: &str) -> Vec<u8> {
    std::fs::read(path(file)).unwrap()
}

pub(crate) fn manifest() -> Json {
    serde_json::from_slice(&bytes("manifest.json")).unwrap()
}

/// What the manifest says about a file.
pub(crate) fn contents(file: &str) -> Json {
    let manifest = manifest();
    manifest["files"].as_array().unwrap().iter().find(|entry| entry["file"] == file).unwrap().clone()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The cells of a chunk as they were generated: the formula under "seeder" in the manifest.
pub(crate) fn generated(pos: ChunkPos) -> Vec<u8> {
    let mut cells = Vec::with_capacity(CELLS_BYTES);
    for (y, x) in (0..512).flat_map(|y| (0..512).map(move |x| (y, x))) {
        let (wx, wy) = (pos.x * 512 + x, pos.y * 512 + y);
        let ground = 256 + (wx.rem_euclid(64) - 32).abs();
        let mut hash = (wx as u32).wrapping_mul(0x9E37_79B1) ^ (wy as u32).wrapping_mul(0x85EB_CA77);
        hash ^= hash >> 15;
        hash = hash.wrapping_mul(0x2C1B_3C6D);
        hash ^= hash >> 12;
        cells.extend(match wy {
            wy if wy < ground - 50 => [3, (hash & 3) as u8, 0, 2],
            wy if wy < ground => [2, (hash & 3) as u8, 0, 2],
            _ => [0; 4],
        });
    }
    cells
}

/// The hash of all cells of a chunk, generated ones included.
pub(crate) fn pixels_sha256(pos: ChunkPos, content: &PixelContent) -> String {
    let mut cells = generated(pos);
    content.apply(&mut cells).unwrap();
    sha256(&cells)
}

/// What the manifest has of a chunk, without the place.
pub(crate) fn payload_json(payload: &PixelPayload) -> Json {
    json!({
        "data_offset": payload.offset(),
        "data_size": payload.stored_bytes(),
        "storage": payload.storage().to_string(),
        "delta_entries": payload.delta_entries(),
    })
}

/// What the manifest has of a chunk.
pub(crate) fn chunk_json(chunk: &PixelChunk) -> Json {
    let mut json = payload_json(&chunk.payload);
    json["pos"] = json!([chunk.pos.x, chunk.pos.y]);
    json["pixels_sha256"] = pixels_sha256(chunk.pos, &chunk.payload.content().unwrap()).into();
    json
}

/// The chunks of a file as the manifest has them, without what the game cannot tell of them.
pub(crate) fn expected_chunks(file: &str) -> Vec<Json> {
    let mut chunks = contents(file)["chunks"].as_array().unwrap().clone();
    for chunk in &mut chunks {
        let chunk = chunk.as_object_mut().unwrap();
        chunk.remove("intent");
        chunk.remove("crc8");
    }
    chunks
}

/// What the manifest has of a body, apart from where the record is and the chunk, which the game gets wrong.
pub(crate) fn body_json(body: &Body) -> Json {
    let mask = body.unpack_mask().unwrap();
    json!({
        "stable_id": body.id.to_string(),
        "position": body.position,
        "rotation": body.rotation,
        "linear_velocity": body.linear_velocity,
        "angular_velocity": body.angular_velocity,
        "width": body.width,
        "height": body.height,
        "origin": body.origin,
        "pixels_sha256": sha256(&body.cells),
        "mask": mask.iter().map(|solid| if *solid { '1' } else { '0' }).collect::<String>(),
        "extension_hex": hex(&body.extension),
    })
}

/// The bodies of a file as the manifest has them.
pub(crate) fn expected_bodies(file: &str) -> Vec<Json> {
    let mut bodies = contents(file)["bodies"].as_array().unwrap().clone();
    for body in &mut bodies {
        let body = body.as_object_mut().unwrap();
        body.retain(|field, _| !["data_offset", "data_size", "chunk_pos"].contains(&&**field));
    }
    bodies
}
