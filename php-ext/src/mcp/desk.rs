//! Where what a server wants finds the PHP thread that does it.
//!
//! Each call has a line. What the server asks waits at the desk, and not with a line: for
//! nobody may be waiting at the end of that one, as of a `ToolStream` that is not read, or it
//! may end before PHP has looked. Who waits is told that there is something, and takes it.

mod line;
mod mailbox;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pillion_core::mcp::{Notification, RpcError};
use serde_json::Value;
use serde_json::value::RawValue;

use super::errand::{Asked, Errand, Question};
use crate::wait::JobSender;
use line::{Caller, LINE};
pub use line::{Line, Ticket, Wait};
pub use mailbox::Mailbox;

/// The code that a server gets whose question finds nobody.
const NOBODY: i64 = -32000;

/// Where one connection's PHP threads are found.
#[derive(Default)]
pub struct Desk {
    hall: Mutex<Hall>,
    mailboxes: Mutex<Vec<Weak<Mailbox>>>,
    /// How often the server said that its tools are others now.
    changes: AtomicU64,
}

/// Who is there, and what is to be done.
#[derive(Default)]
struct Hall {
    /// Where somebody began to wait last comes last.
    lines: Vec<Arc<Caller>>,
    /// What nobody has taken yet, the oldest first. The engine bounds it.
    errands: VecDeque<Waiting>,
}

/// An errand, and the line of the call that it belongs to where that is known.
struct Waiting {
    errand: Errand,
    of: Option<Arc<Caller>>,
}

impl Hall {
    /// Who is to do an errand: the object whose call it belongs to, where it waits. A thread
    /// waits at one line only, the one at which it began to wait last: one that waits inside
    /// another's callback keeps the other from hearing anything. None when nobody waits.
    fn target(&self, of: Option<&Arc<Caller>>) -> Option<&Arc<Caller>> {
        let waiting = || self.lines.iter().rev().filter(|line| line.is_waited_for());
        let of_the_object =
            of.and_then(|of| waiting().find(|line| Arc::ptr_eq(&line.mailbox, &of.mailbox)));
        of_the_object.or_else(|| waiting().next())
    }

    /// Tells those who are to do something.
    fn redirect(&mut self) {
        if !self.lines.iter().any(|line| line.is_there()) {
            // Whoever waits for an answer hears that nobody is there.
            self.errands.clear();
        }
        self.errands
            .retain(|waiting| !waiting.errand.is_abandoned());
        let mut told: Vec<&Arc<Caller>> = Vec::new();
        for waiting in &self.errands {
            let target = self.target(waiting.of.as_ref());
            if let Some(target) =
                target.filter(|target| !told.iter().any(|line| Arc::ptr_eq(line, target)))
            {
                (target.errands)(Errand::Look);
                told.push(target);
            }
        }
    }
}

impl Desk {
    /// Lists a call of the PHP object that has this mailbox.
    pub fn open(self: &Arc<Self>, errands: JobSender<Errand>, mailbox: &Arc<Mailbox>) -> Line {
        let caller = Arc::new(Caller::new(errands, mailbox));
        lock(&self.hall).lines.push(Arc::clone(&caller));
        Line {
            desk: Arc::clone(self),
            caller,
        }
    }

    /// Passes every notice from now on to a mailbox too, as long as it exists.
    pub fn subscribe(&self, mailbox: &Arc<Mailbox>) {
        let mut mailboxes = lock(&self.mailboxes);
        mailboxes.retain(|mailbox| mailbox.strong_count() > 0);
        mailboxes.push(Arc::downgrade(mailbox));
    }

    /// How often the server said that its tools are others now.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Takes a question of the server's to PHP: to the object whose call it belongs to, or,
    /// where that cannot be told, as on a stream that serves all requests, or that object does
    /// not wait, to the one that began to wait last. While none waits, but a call is under
    /// way, the question waits too.
    ///
    /// To be called where the question is heard, not where its answer is waited for.
    pub fn ask(
        self: &Arc<Self>,
        asked: Asked,
        params: Box<RawValue>,
    ) -> impl Future<Output = Result<Value, RpcError>> + Send + use<> {
        let (question, answer) = Question::new(asked, params);
        self.post(Errand::Question(question));
        async move {
            let nobody = |_| Err(RpcError::new(NOBODY, "Nobody is there to answer"));
            answer.await.unwrap_or_else(nobody)
        }
    }

    /// Has an errand done by PHP; it is dropped when nobody is there.
    pub fn post(&self, errand: Errand) {
        let of = LINE.try_with(Arc::clone).ok();
        let mut hall = lock(&self.hall);
        hall.errands.push_back(Waiting { errand, of });
        hall.redirect();
    }

    /// Wakes the thread that waits; whoever comes later looks anyway.
    pub fn wake(&self) {
        let of = LINE.try_with(Arc::clone).ok();
        if let Some(line) = lock(&self.hall).target(of.as_ref()) {
            (line.errands)(Errand::Look);
        }
    }

    /// What that line is to do first.
    fn take(&self, line: &Arc<Caller>) -> Option<Errand> {
        let mut hall = lock(&self.hall);
        let place = hall.errands.iter().position(|waiting| {
            let target = hall.target(waiting.of.as_ref());
            target.is_some_and(|target| Arc::ptr_eq(target, line))
        })?;
        hall.errands.remove(place).map(|waiting| waiting.errand)
    }

    fn begin_to_wait(&self, line: &Arc<Caller>) {
        let mut hall = lock(&self.hall);
        hall.lines.retain(|other| !Arc::ptr_eq(other, line));
        hall.lines.push(Arc::clone(line));
        hall.redirect();
    }

    fn close(&self, line: &Arc<Caller>) {
        let mut hall = lock(&self.hall);
        hall.lines.retain(|other| !Arc::ptr_eq(other, line));
        hall.redirect();
    }

    fn redirect(&self) {
        lock(&self.hall).redirect();
    }

    /// Hears a notice of the server's.
    pub fn hear(&self, notice: &Notification) {
        if notice.method == "notifications/tools/list_changed" {
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        let mut is_news = false;
        for mailbox in lock(&self.mailboxes).iter().filter_map(Weak::upgrade) {
            is_news |= mailbox.put(notice.clone());
        }
        // One that has been told and has not looked yet will find this one too.
        if is_news {
            for line in &lock(&self.hall).lines {
                (line.errands)(Errand::Look);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held leaves a valid value behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
