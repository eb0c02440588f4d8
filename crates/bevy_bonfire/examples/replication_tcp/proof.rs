//! Starts a server and three clients, lets the worst happen, and compares what they have at the end.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use bevy_app::AppExit;

use crate::AnyError;
use crate::wire::PATIENCE;

/// This program once more. It is ended when this is dropped.
struct Process {
    name: &'static str,
    child: Child,
    console: Option<ChildStdin>,
    lines: Receiver<String>,
    deadline: Instant,
}

impl Process {
    fn start(name: &'static str, deadline: Instant, arguments: &[&str]) -> Result<Self, AnyError> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (said, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                lines.for_each(|line| drop(said.send(line)));
            });
        }
        let console = child.stdin.take();
        Ok(Self { name, child, console, lines, deadline })
    }

    /// Waits for a line that begins so, and returns the rest of it.
    fn line(&self, start: &str) -> Result<String, AnyError> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.map_err(|_| format!("{} did not say `{start}`", self.name))?;
            println!("{:>7}: {line}", self.name);
            if let Some(rest) = line.strip_prefix(start) {
                return Ok(rest.to_owned());
            }
        }
    }

    fn type_line(&mut self, line: &str) -> Result<(), AnyError> {
        let console = self.console.as_mut().ok_or("it has no console")?;
        Ok(writeln!(console, "{line}")?)
    }

    fn succeeds(&mut self) -> Result<(), AnyError> {
        // Its output ends when it does.
        while let Ok(line) = self.lines.recv_timeout(self.deadline.saturating_duration_since(Instant::now()))
        {
            println!("{:>7}: {line}", self.name);
        }
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("{} ended with {status}", self.name).into()),
                None if Instant::now() < self.deadline => std::thread::yield_now(),
                None => return Err(format!("{} does not end", self.name).into()),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A peer that says this is hung up on.
fn is_refused(address: &str, nonsense: &[u8]) -> Result<(), AnyError> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(nonsense)?;
    // Messages may come before the server has read this, then the end; a reset is one, too.
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        match socket.read(&mut [0; 4096]) {
            Ok(0) => return Ok(()),
            Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(());
            }
            _ => {}
        }
    }
    Err("nonsense was taken".into())
}

pub(crate) fn prove(record: Option<&str>) -> Result<AppExit, AnyError> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut server = Process::start("server", deadline, &["server"])?;
    let address = server.line("listening on ")?;
    let start = |name, more: &[&str]| Process::start(name, deadline, &[&["client", &address], more].concat());

    let recording = record.map(|path| ["--record", path]);
    let mut early = start("early", recording.as_ref().map_or(&[], |arguments| &arguments[..]))?;
    let first: u64 = early.line("joined at tick ")?.parse()?;

    is_refused(&address, &u32::MAX.to_le_bytes())?; // a length that nobody may have
    is_refused(&address, &[&64_u32.to_le_bytes()[..], &[7; 64]].concat())?; // no request

    server.line("frame 100")?;
    let mut late = start("late", &[])?;
    let second: u64 = late.line("joined at tick ")?.parse()?;
    if second <= first {
        return Err("nobody has joined in mid-stream".into());
    }

    let mut unlucky = start("unlucky", &[])?;
    unlucky.line("joined at tick ")?;
    server.type_line("lose")?; // the next message to who came last
    unlucky.line("has missed ")?;
    unlucky.line("caught up ")?;

    server.line("frame 300")?;
    server.type_line("finish")?;
    let told = server.line("over: ")?;
    for client in [&mut early, &mut late, &mut unlucky] {
        let seen = client.line("over: ")?;
        if seen != told {
            return Err(format!("{} has {seen}, the server {told}", client.name).into());
        }
        client.succeeds()?;
    }
    server.succeeds()?;
    println!("all worlds are the same: {told}");
    Ok(AppExit::Success)
}
