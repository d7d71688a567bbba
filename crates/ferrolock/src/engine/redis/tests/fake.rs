//! What the server of these tests answers: enough for the engine, by rules that a test may change at any time.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use testkit::{Answer, StubServer};

/// What the server does with the next script calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnScript {
    /// Answers with the first argument.
    Echo,
    /// Runs it and closes the connection instead of answering.
    LoseReply,
    /// Runs it and says nothing.
    Swallow,
    Error(&'static str),
}

pub(super) struct Rules {
    pub(super) version: &'static str,
    pub(super) password: Option<&'static str>,
    /// The answer to HELLO.
    pub(super) hello_error: Option<&'static str>,
    pub(super) on_script: OnScript,
    pub(super) knows_scripts: bool,
    /// Channels that begin like this are forbidden.
    pub(super) forbidden: Option<&'static str>,
    pub(super) subscribe_error: Option<&'static str>,
    /// Reads everything, answers nothing.
    pub(super) mute: bool,
}

pub(super) struct Fake {
    server: StubServer,
    rules: Arc<Mutex<Rules>>,
}

impl Fake {
    pub(super) fn start() -> Fake {
        Fake::start_with(|_| {})
    }

    pub(super) fn start_with(edit: impl FnOnce(&mut Rules)) -> Fake {
        let mut rules = Rules {
            version: "redis_version:7.0.15",
            password: None,
            hello_error: None,
            on_script: OnScript::Echo,
            knows_scripts: true,
            forbidden: None,
            subscribe_error: None,
            mute: false,
        };
        edit(&mut rules);
        let rules = Arc::new(Mutex::new(rules));
        let now = rules.clone();
        let server = StubServer::start(move |words| now.lock().unwrap().answer(words));
        Fake { server, rules }
    }

    pub(super) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap()
    }
}

impl Deref for Fake {
    type Target = StubServer;

    fn deref(&self) -> &StubServer {
        &self.server
    }
}

impl Rules {
    fn answer(&mut self, words: &[String]) -> Answer {
        match words[0].as_str() {
            _ if self.mute => Answer::Silence,
            "HELLO" => self.hello(words),
            "INFO" => Answer::text(self.version),
            "PING" => Answer::Status("PONG".into()),
            "EVALSHA" if !self.knows_scripts => {
                Answer::Error("NOSCRIPT No matching script. Please use EVAL.".into())
            }
            "EVAL" | "EVALSHA" => {
                self.knows_scripts = true;
                self.script(words)
            }
            "SUBSCRIBE" => self.subscribe(&words[1..]),
            "UNSUBSCRIBE" => Answer::Leave,
            _ => Answer::ok(),
        }
    }

    fn hello(&self, words: &[String]) -> Answer {
        if let Some(text) = self.hello_error {
            // Old servers repeat the command that they did not understand.
            return Answer::Error(format!("{text} {}", words.join(" ")));
        }
        let given = words.iter().skip_while(|word| *word != "AUTH").nth(2);
        match self.password {
            Some(password) if given.is_none_or(|given| given != password) => Answer::Error(
                "WRONGPASS invalid username-password pair or user is disabled.".into(),
            ),
            _ => Answer::Map(vec![(Answer::text("proto"), Answer::Int(3))]),
        }
    }

    fn script(&self, words: &[String]) -> Answer {
        let keys: usize = words[2].parse().unwrap();
        match self.on_script {
            OnScript::Echo => Answer::text(words.get(3 + keys).map_or("", String::as_str)),
            OnScript::LoseReply => Answer::Close,
            OnScript::Swallow => Answer::Silence,
            OnScript::Error(text) => Answer::Error(text.into()),
        }
    }

    fn subscribe(&self, channels: &[String]) -> Answer {
        let is_forbidden = |channel: &String| {
            self.forbidden
                .is_some_and(|start| channel.starts_with(start))
        };
        match self.subscribe_error {
            Some(text) => Answer::Error(text.into()),
            None if channels.iter().any(is_forbidden) => {
                Answer::Error("NOPERM No permissions to access a channel".into())
            }
            None => Answer::Join,
        }
    }
}
