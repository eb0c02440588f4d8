//! Messages over TCP, with their lengths in front. The page to copy; nothing in it is about replication.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use bytes::Bytes;

/// What a client takes from its server. A world that is larger needs more.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 64 << 20;
/// What a server takes from a client: nothing but requests, and those have one size.
pub(crate) const REQUEST_BYTES_MAX: u32 = 64;
/// Messages that wait for a peer that does not take them. One more, and it is left alone.
const WAITING_MAX: usize = 1024;
/// How long a peer may say nothing, or take nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

fn write_frame(out: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(message)
}

/// The length is checked before anything is read, and memory grows with what arrives, not with what is promised.
fn read_frame(input: &mut impl Read, bytes_max: u32) -> io::Result<Bytes> {
    let mut length = [0; 4];
    input.read_exact(&mut length).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "it has hung up"),
        _ => error,
    })?;
    let length = u32::from_le_bytes(length);
    if length > bytes_max {
        return Err(io::Error::other(format!("a message of {length} bytes, at most {bytes_max} are taken")));
    }
    let mut message = Vec::new();
    input.take(u64::from(length)).read_to_end(&mut message)?;
    if message.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(message.into())
}

/// One thread that reads and one that writes. Both end when this is dropped.
pub(crate) struct Connection {
    socket: TcpStream,
    outgoing: SyncSender<Bytes>,
}

impl Connection {
    /// `heard` gets every message, and an error at the end.
    pub(crate) fn start(
        socket: TcpStream,
        bytes_max: u32,
        heard: impl Fn(io::Result<Bytes>) + Send + 'static,
    ) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let (reading, mut writing) = (socket.try_clone()?, socket.try_clone()?);
        let (outgoing, waiting) = sync_channel::<Bytes>(WAITING_MAX);
        std::thread::spawn(move || {
            let mut reading = BufReader::new(reading);
            loop {
                let message = read_frame(&mut reading, bytes_max);
                let ended = message.is_err();
                heard(message);
                if ended {
                    return;
                }
            }
        });
        std::thread::spawn(move || {
            while let Ok(message) = waiting.recv() {
                if write_frame(&mut writing, &message).is_err() {
                    // The other thread says so.
                    let _ = writing.shutdown(Shutdown::Both);
                    return;
                }
            }
        });
        Ok(Self { socket, outgoing })
    }

    /// Whether the peer is still there, and keeps up.
    pub(crate) fn send(&self, message: Bytes) -> bool {
        self.outgoing.try_send(message).is_ok()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
