//! Writes to standard error, whose reader may stop reading, such as a paused terminal. No logging
//! thread waits for the reader: lines that cannot be written at once wait in memory, up to a
//! maximum size; further lines are dropped and counted.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Stat, fstat};
use tracing_subscriber::fmt::MakeWriter;

/// Maximum total size of the queued lines, in bytes.
const MAX_WAITING_BYTES: usize = 1024 * 1024;

/// Number of bytes that can be written without blocking if `poll` reports the file as writable:
/// `PIPE_BUF` of Linux.
const MAX_WRITE_BYTES: usize = 4096;

/// Maximum time that [`flush`] waits, so that a process ends even if nothing reads its log.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

static STDERR: LazyLock<LogOutput<io::Stderr>> = LazyLock::new(|| LogOutput::new(io::stderr()));

/// Returns the writer of log lines to standard error.
pub(super) fn stderr() -> &'static LogOutput<io::Stderr> {
    &STDERR
}

/// Waits up to a second until all queued lines are written to standard error.
pub fn flush() {
    STDERR.flush(FLUSH_TIMEOUT);
}

/// A file to which whole lines are written without waiting for its reader. Cheap to clone.
pub(super) struct LogOutput<F>(Arc<OutputState<F>>);

struct OutputState<F> {
    file: F,
    /// Whether a write to the file may block until its reader reads. Regular files have no reader.
    has_reader: bool,
    queue: Mutex<LineQueue>,
    /// Notified when no line is queued anymore.
    empty_condition: Condvar,
}

#[derive(Default)]
struct LineQueue {
    /// The queued lines. The beginning of the first may already be written.
    lines: VecDeque<Vec<u8>>,
    queued_bytes: usize,
    /// Number of lines that were dropped since the last line was queued.
    dropped_lines: u64,
    /// Whether a thread writes the lines of the queue.
    is_draining: bool,
}

impl<F: AsFd + Send + Sync + 'static> LogOutput<F> {
    fn new(file: F) -> Self {
        let is_regular = |stat: Stat| FileType::from_raw_mode(stat.st_mode).is_file();
        let has_reader = !fstat(&file).is_ok_and(is_regular);
        Self(Arc::new(OutputState {
            file,
            has_reader,
            queue: Mutex::default(),
            empty_condition: Condvar::new(),
        }))
    }

    /// Writes a line, or queues the part that would block.
    fn write_line(&self, line: &[u8]) {
        let mut queue = self.0.queue.lock();
        let unwritten_bytes = if queue.is_draining {
            line
        } else {
            self.0.write_now(line)
        };
        if unwritten_bytes.is_empty() {
            return;
        }
        // Drops a whole line that would exceed the limit of the queue. The rest of a partly written
        // line is always queued.
        if unwritten_bytes.len() == line.len()
            && queue.queued_bytes + unwritten_bytes.len() > MAX_WAITING_BYTES
        {
            queue.dropped_lines += 1;
            return;
        }
        if queue.dropped_lines > 0 {
            let note = dropped_lines_note(std::mem::take(&mut queue.dropped_lines));
            queue.push(note);
        }
        queue.push(unwritten_bytes.to_vec());
        if !queue.is_draining {
            queue.is_draining = true;
            let output = self.clone();
            let thread_builder = thread::Builder::new().name("log".to_owned());
            if thread_builder.spawn(move || output.drain()).is_err() {
                queue.is_draining = false;
            }
        }
    }

    /// Writes the queued lines until none is left. May block the current thread.
    fn drain(&self) {
        let mut queue = self.0.queue.lock();
        loop {
            let Some(line) = queue.lines.pop_front() else {
                if queue.dropped_lines == 0 {
                    queue.is_draining = false;
                    self.0.empty_condition.notify_all();
                    return;
                }
                let note = dropped_lines_note(std::mem::take(&mut queue.dropped_lines));
                queue.push(note);
                continue;
            };
            drop(queue);
            self.0.write_all(&line);
            queue = self.0.queue.lock();
            queue.queued_bytes -= line.len();
        }
    }

    fn flush(&self, timeout: Duration) {
        let mut queue = self.0.queue.lock();
        if queue.is_draining {
            let empty_condition = &self.0.empty_condition;
            empty_condition.wait_while_for(&mut queue, |queue| queue.is_draining, timeout);
        }
    }
}

impl<F> Clone for LogOutput<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl LineQueue {
    fn push(&mut self, line: Vec<u8>) {
        self.queued_bytes += line.len();
        self.lines.push_back(line);
    }
}

fn dropped_lines_note(count: u64) -> Vec<u8> {
    format!("pillion: {count} log lines were dropped, because no process read the log\n")
        .into_bytes()
}

impl<F: AsFd> OutputState<F> {
    /// Writes as many bytes of a line as possible without blocking. Returns the unwritten rest.
    fn write_now<'a>(&self, mut bytes: &'a [u8]) -> &'a [u8] {
        while !bytes.is_empty() && self.has_room() {
            let part = &bytes[..bytes.len().min(MAX_WRITE_BYTES)];
            match rustix::io::write(&self.file, part) {
                Ok(written_bytes) => bytes = &bytes[written_bytes..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return bytes,
                // A write error is ignored, because there is nowhere to report an error of the log
                // itself.
                Err(_) => return &[],
            }
        }
        bytes
    }

    fn has_room(&self) -> bool {
        !self.has_reader || self.is_writable(Some(&Timespec::default()))
    }

    fn is_writable(&self, timeout: Option<&Timespec>) -> bool {
        let mut descriptors = [PollFd::new(&self.file, PollFlags::OUT)];
        // If the reader is closed, the write fails at once instead of blocking.
        poll(&mut descriptors, timeout).is_ok_and(|ready_count| ready_count > 0)
    }

    /// Writes all bytes, and waits for the reader if necessary.
    fn write_all(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = self.write_now(bytes);
            if !bytes.is_empty() {
                self.is_writable(None);
            }
        }
    }
}

/// A log line, which is written with a single write.
pub(super) struct LogLine<F>(LogOutput<F>);

impl<F: AsFd + Send + Sync + 'static> Write for LogLine<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_line(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a, F: AsFd + Send + Sync + 'static> MakeWriter<'a> for &'static LogOutput<F> {
    type Writer = LogLine<F>;

    fn make_writer(&'a self) -> Self::Writer {
        LogLine((*self).clone())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read, pipe};

    use super::*;

    fn written_until(reader: &mut PipeReader, end: &str) -> String {
        let mut text = Vec::new();
        let mut buffer = [0; 65_536];
        while !text.ends_with(end.as_bytes()) {
            let count = reader.read(&mut buffer).unwrap();
            text.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_reader_that_stops_reading_stops_no_writer_and_misses_only_counted_lines() {
        let (mut reader, writer) = pipe().unwrap();
        let output = LogOutput::new(writer);
        let line = |number: usize| format!("{number} {}\n", "x".repeat(number % 10_000));
        let mut count = 0;
        while output.0.queue.lock().dropped_lines < 100 {
            output.write_line(line(count).as_bytes());
            count += 1;
        }
        output.flush(Duration::from_millis(10));
        let note = "pillion: 100 log lines were dropped, because no process read the log\n";
        let text = written_until(&mut reader, note);
        let expected: String = (0..count - 100).map(line).collect();
        assert_eq!(text, expected + note);
        output.flush(Duration::from_secs(60));
        // Once the queue is empty, lines are written directly again.
        output.write_line(b"after\n");
        assert!(!output.0.queue.lock().is_draining);
        assert_eq!(written_until(&mut reader, "after\n"), "after\n");
    }

    #[test]
    fn lines_of_many_threads_stay_whole() {
        let (mut reader, writer) = pipe().unwrap();
        let output = LogOutput::new(writer);
        let threads = (b'a'..b'i').map(|letter| {
            let output = output.clone();
            thread::spawn(move || {
                let line = [vec![letter; 9_999], vec![b'\n']].concat();
                (0..10).for_each(|_| output.write_line(&line));
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.join().unwrap();
        }
        let reading = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        output.flush(Duration::from_secs(60));
        drop(output);
        let text = reading.join().unwrap();
        assert_eq!(text.lines().count(), 80);
        for line in text.lines() {
            let first = &line[..1];
            assert_eq!(line, first.repeat(9_999));
        }
    }
}
