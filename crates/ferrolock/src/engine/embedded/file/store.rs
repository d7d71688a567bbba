//! What is done in one turn: a call, a subscription, the beginning and the end of a session.

mod call;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) use self::call::Effects;
use super::super::emulator::channels::ListenerId;
use super::super::emulator::lua::Interpreter;
use super::super::emulator::server::Server;
use super::folder::Folder;
use super::leaving::Loser;
use super::map::Map;
use super::refused;
use super::rows;
use super::session::{Others, Session, remove_listeners};
use super::wakes::Socket;
use crate::engine::{Failure, Listener};

/// The state of a store in this process; used by the thread that has the turn.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) folder: Folder,
    map: Map,
    /// Holds the keys of one call at a time; its channels are those of this process.
    server: Server,
    interpreter: Interpreter,
    others: Others,
    session: Option<Open>,
}

/// The session of this process, while a client here uses the store.
#[derive(Debug)]
struct Open {
    session: Session,
    /// By their numbers: an engine that enters or leaves twice counts once.
    engines: BTreeMap<u64, Arc<Loser>>,
    socket: Option<Socket>,
}

impl Store {
    pub(super) fn new(folder: Folder, map: Map, interpreter: Interpreter) -> Self {
        Self {
            others: Others::new(folder.sessions(), folder.device()),
            folder,
            map,
            server: Server::seeded(fastrand::u64(..)),
            interpreter,
            session: None,
        }
    }

    /// One engine more uses the store; the first begins the session.
    pub(super) fn attach(&mut self, engine: u64, loser: Arc<Loser>) -> Result<(), Failure> {
        // If a part is missing, no other process could join what this client would use.
        self.look();
        self.check_in_place()?;
        if let Some(open) = &mut self.session {
            open.engines.insert(engine, loser);
            return Ok(());
        }
        let session = Session::begin(&self.folder.sessions())?;
        let now = self.folder.header.micros() / 1000;
        let registered = self.map.begin().and_then(|mut change| {
            session.register(&mut change)?;
            let dead = self.others.sweep(&mut change, &session.name, now)?;
            change.commit()?;
            Ok(dead)
        });
        match registered {
            Ok(dead) => dead.iter().for_each(|dead| self.others.forget(dead)),
            Err(failure) => {
                session.end();
                return Err(failure);
            }
        }
        self.session = Some(Open {
            session,
            engines: BTreeMap::from([(engine, loser)]),
            socket: None,
        });
        Ok(())
    }

    /// One engine less: its client is removed, and the last one ends the session.
    pub(super) fn detach(&mut self, engine: u64, client: Option<&str>) {
        self.server.channels.remove_engine(engine);
        let Some(open) = &mut self.session else {
            return;
        };
        open.engines.remove(&engine);
        let is_last = open.engines.is_empty();
        let ended = self.map.begin().and_then(|mut change| {
            if let Some(client) = client {
                change.delete(&rows::client(client))?;
            }
            if is_last {
                open.session.unregister(&mut change)?;
                remove_listeners(&mut change, std::slice::from_ref(&open.session.name))?;
            }
            change.commit()
        });
        // If it could not be written, other processes will find the session dead.
        if is_last
            && ended.is_ok()
            && let Some(open) = self.session.take()
        {
            open.end();
        }
    }

    /// For each client here, what loses its holds.
    pub(super) fn losers(&self) -> Vec<Arc<Loser>> {
        let open = self.session.iter();
        open.flat_map(|open| open.engines.values().cloned())
            .collect()
    }

    /// Lets other processes begin the store anew, after this one noticed that a part is missing. A child process that was given
    /// the session's file keeps them out until it ends too: the file stays where it is, so that they see its lock.
    pub(super) fn leave(&mut self) {
        if let Some(open) = self.session.take() {
            open.close_socket();
        }
        self.folder.leave();
    }

    /// The file whose lock shows other processes that this one lives.
    pub(super) fn lifeline(&self) -> Option<std::os::fd::OwnedFd> {
        let file = self.session.as_ref()?.session.file.try_clone();
        file.ok().map(Into::into)
    }

    fn own_session(&self) -> Option<&str> {
        self.session.as_ref().map(|open| open.session.name.as_str())
    }

    /// Looks for all parts of the store.
    pub(super) fn look(&mut self) {
        self.folder.look(self.folder.header.micros());
    }

    fn check_in_place(&mut self) -> Result<(), Failure> {
        let micros = self.folder.header.micros();
        if self.folder.verify_in_place(None, micros) {
            return Ok(());
        }
        Err(self.removed())
    }

    fn removed(&self) -> Failure {
        refused(
            "REMOVED",
            format!(
                "the store {} was removed or replaced while it was open: connect again",
                self.folder.path().display()
            ),
        )
    }

    /// Adds a listener, and lets other processes know that this one listens.
    pub(super) fn listen(
        &mut self,
        channel: &[u8],
        engine: u64,
        listener: Arc<dyn Listener>,
        bind: impl FnOnce(&str) -> std::io::Result<Socket>,
    ) -> Result<ListenerId, Failure> {
        self.check_in_place()?;
        let Some(open) = &mut self.session else {
            return Err(Failure::Closed(crate::engine::SHUT_DOWN.to_owned()));
        };
        if open.socket.is_none() {
            let bound = bind(&open.session.name);
            let told = |error| super::directory::io_trouble("the store's sockets", &error);
            open.socket = Some(bound.map_err(told)?);
        }
        let id = self.server.channels.add(channel, engine, listener);
        if let Err(failure) = self.write_listeners(channel) {
            self.server.channels.remove(channel, id);
            return Err(failure);
        }
        Ok(id)
    }

    /// Removes a listener; returns how many are left on its channel.
    pub(super) fn listen_no_more(&mut self, channel: &[u8], id: ListenerId) -> usize {
        self.server.channels.remove(channel, id);
        // At worst another process sends us messages for which there is no listener.
        let _ = self.write_listeners(channel);
        self.server.channels.count(channel)
    }

    /// The listeners of a channel here.
    pub(super) fn listeners(&self, channel: &[u8]) -> impl Iterator<Item = Arc<dyn Listener>> + '_ {
        self.server.channels.listeners(channel)
    }

    /// Writes down how many listen to a channel here.
    fn write_listeners(&mut self, channel: &[u8]) -> Result<(), Failure> {
        let Some(open) = &self.session else {
            return Ok(());
        };
        let row = rows::listener(channel, &open.session.name);
        let mut change = self.map.begin()?;
        match u32::try_from(self.server.channels.count(channel)).unwrap_or(u32::MAX) {
            0 => change.delete(&row)?,
            count => change.put(&row, &count.to_be_bytes())?,
        }
        change.commit()
    }

    /// Removes the listeners of those sessions, which no longer have a socket.
    pub(super) fn remove_deaf(&mut self, sessions: &[String]) -> Result<(), Failure> {
        let mut change = self.map.begin()?;
        remove_listeners(&mut change, sessions)?;
        change.commit()
    }

    /// The file of a session, for a thread that waits for its end.
    pub(super) fn to_wait_for(&self, session: &str) -> Option<std::fs::File> {
        self.others.to_wait_for(session)
    }
}

impl Open {
    fn end(self) {
        self.close_socket();
        self.session.end();
    }

    fn close_socket(&self) {
        if let Some(socket) = &self.socket {
            // Ends the thread that reads it.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}
