//! Runs scripts over a [`Server`] as Redis does.
//!
//! One Lua 5.1 state. Each script is compiled once; what it may use is in `sandbox.lua`. A run has a limit of steps
//! and of memory, so that a script that never ends cannot hold the server for ever.

mod convert;
mod random;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, VmState};

use super::commands::{self, Args, Reply};
use super::server::Server;
use crate::engine::Failure;
use crate::protocol::call::{Call, Script, Value};

/// How many VM instructions a script may run.
const STEPS_MAX: u32 = 10_000_000;
/// After how many instructions they are counted.
const STEPS_COUNTED: u32 = 10_000;
/// How much memory the Lua state may take while a script runs, in bytes.
///
/// Only then: under a limit every value that we hand over costs a protected call, which nearly doubles the time of a script.
const MEMORY_MAX: usize = 64 << 20;

/// A Lua state with its compiled scripts.
pub(in super::super) struct Interpreter {
    lua: Lua,
    /// By the address of the script, which is a static.
    compiled: HashMap<usize, Function>,
    environment: Table,
    /// The table behind `environment`.
    globals: Table,
    steps: Arc<AtomicU32>,
}

/// What the functions of `redis` act on; in the Lua state while a script runs.
#[derive(Default)]
struct Host {
    server: Server,
    args: Args,
}

impl Interpreter {
    pub(in super::super) fn new() -> Result<Self, Failure> {
        Self::build().map_err(|error| failure(&error))
    }

    fn build() -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let functions = engine_functions(&lua)?;
        let (environment, globals) = lua
            .load(include_str!("sandbox.lua"))
            .set_name("@sandbox")
            .call::<(Table, Table)>(functions)?;
        lua.set_app_data(Host::default());
        let interpreter = Self {
            lua,
            compiled: HashMap::new(),
            environment,
            globals,
            steps: Arc::default(),
        };
        interpreter.count_steps()?;
        Ok(interpreter)
    }

    /// Runs one call to its end.
    pub(in super::super) fn run(
        &mut self,
        server: &mut Server,
        call: &Call,
    ) -> Result<Value, Failure> {
        self.exchange(server);
        let reply = self.run_script(call);
        self.exchange(server);
        reply.map_err(|error| self.recover(&error))
    }

    fn run_script(&mut self, call: &Call) -> mlua::Result<Value> {
        let function = self.function(call.script)?;
        let keys = convert::texts(&self.lua, &call.keys)?;
        let args = convert::arguments(&self.lua, &call.args)?;
        self.globals.raw_set("KEYS", keys)?;
        self.globals.raw_set("ARGV", args)?;
        self.steps.store(0, Ordering::Relaxed);
        let value = with_memory_limit(&self.lua, MEMORY_MAX, || function.call(()))?;
        convert::value(value)
    }

    fn function(&mut self, script: &'static Script) -> mlua::Result<Function> {
        let address = std::ptr::from_ref(script).addr();
        if let Some(function) = self.compiled.get(&address) {
            return Ok(function.clone());
        }
        let function = self
            .lua
            .load(script.source)
            .set_name(format!("@{}", script.name))
            .set_mode(ChunkMode::Text)
            .set_environment(self.environment.clone())
            .into_function()?;
        self.compiled.insert(address, function.clone());
        Ok(function)
    }

    /// Moves the server into the Lua state, where the functions of `redis` find it, or back.
    fn exchange(&self, server: &mut Server) {
        if let Some(mut host) = self.lua.app_data_mut::<Host>() {
            std::mem::swap(&mut host.server, server);
        }
    }

    /// Prepares the state for the next run and returns the failure.
    fn recover(&self, error: &mlua::Error) -> Failure {
        let failure = failure(error);
        if self.steps.load(Ordering::Relaxed) > STEPS_MAX {
            // Outside a run there is no limit of memory that could refuse it.
            let _ = self.count_steps();
        }
        // What a collection that fails leaves, the next one frees.
        let _ = self.lua.gc_collect();
        failure
    }

    /// Sets the hook that ends a run at [`STEPS_MAX`].
    fn count_steps(&self) -> mlua::Result<()> {
        let steps = self.steps.clone();
        let triggers = HookTriggers::new().every_nth_instruction(STEPS_COUNTED);
        self.lua.set_hook(triggers, move |lua, _| {
            if steps.fetch_add(STEPS_COUNTED, Ordering::Relaxed) < STEPS_MAX {
                return Ok(VmState::Continue);
            }
            // From here on every instruction fails, else a loop around `pcall` would go on.
            let each = HookTriggers::new().every_nth_instruction(1);
            lua.set_hook(each, |_, _| Err(mlua::Error::external(TooManySteps)))?;
            Err(mlua::Error::external(TooManySteps))
        })
    }
}

impl fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interpreter")
            .field("scripts", &self.compiled.len())
            .finish_non_exhaustive()
    }
}

/// The functions that `sandbox.lua` takes.
fn engine_functions(lua: &Lua) -> mlua::Result<Table> {
    let functions = lua.create_table()?;
    let call = lua.create_function(|lua, words: MultiValue| match command(lua, &words)? {
        Reply::Error(text) => Err(mlua::Error::external(Raised(text))),
        reply => hand_over(lua, reply),
    })?;
    functions.raw_set("call", call)?;
    let pcall = lua.create_function(|lua, words: MultiValue| {
        let reply = command(lua, &words)?;
        hand_over(lua, reply)
    })?;
    functions.raw_set("pcall", pcall)?;
    let raise = lua.create_function(|_, problem: Table| {
        let text = match problem.raw_get("err")? {
            mlua::Value::String(text) => text.to_string_lossy(),
            _ => "ERR unknown error".to_owned(),
        };
        Err::<(), _>(mlua::Error::external(Raised(text)))
    })?;
    functions.raw_set("raise", raise)?;
    let describe = lua.create_function(|_, problem: mlua::Error| Ok(text_of(&problem)))?;
    functions.raw_set("describe", describe)?;
    random::add_to(&functions, lua)?;
    Ok(functions)
}

/// Runs a command of a script.
fn command(lua: &Lua, words: &MultiValue) -> mlua::Result<Reply> {
    let Some(mut host) = lua.app_data_mut::<Host>() else {
        return Err(mlua::Error::runtime("no server is attached"));
    };
    let Host { server, args } = &mut *host;
    if words.is_empty() {
        return Ok(Reply::error(
            "ERR Please specify at least one argument for this redis lib call",
        ));
    }
    args.clear();
    for word in words {
        if !convert::push_word(args, word) {
            return Ok(Reply::error(
                "ERR Lua redis lib command arguments must be strings or integers",
            ));
        }
    }
    Ok(commands::execute(server, args))
}

/// Gives a reply to the script. Its memory counts from the script's next allocation on.
fn hand_over(lua: &Lua, reply: Reply) -> mlua::Result<mlua::Value> {
    match reply {
        Reply::Nil | Reply::Int(_) => convert::reply(lua, reply),
        _ => with_memory_limit(lua, 0, || convert::reply(lua, reply)),
    }
}

/// Runs `inner` under a limit (0: none) and restores the one before it.
fn with_memory_limit<R>(
    lua: &Lua,
    limit: usize,
    inner: impl FnOnce() -> mlua::Result<R>,
) -> mlua::Result<R> {
    let before = lua.set_memory_limit(limit)?;
    let result = inner();
    lua.set_memory_limit(before)?;
    result
}

/// An error reply on its way through the script.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Raised {}

/// The script ran longer than it may.
#[derive(Debug)]
struct TooManySteps;

impl fmt::Display for TooManySteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LIMIT the script ran more than {STEPS_MAX} steps")
    }
}

impl StdError for TooManySteps {}

/// Code and text of the error that a script ended with.
fn failure(error: &mlua::Error) -> Failure {
    let text = text_of(error);
    let is_code = |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase());
    match text.split_once(' ') {
        Some((code, message)) if !code.is_empty() && is_code(code) => Failure::Refused {
            code: code.to_owned(),
            message: message.to_owned(),
        },
        _ => Failure::Refused {
            code: "ERR".to_owned(),
            message: text,
        },
    }
}

/// One line: what a script's `pcall` sees, and what the caller fails with.
fn text_of(error: &mlua::Error) -> String {
    let text = if let Some(Raised(text)) = error.downcast_ref() {
        text.clone()
    } else if let Some(limit) = error.downcast_ref::<TooManySteps>() {
        limit.to_string()
    } else {
        match root(error) {
            mlua::Error::MemoryError(_) => {
                format!("LIMIT the script took more than {MEMORY_MAX} bytes")
            }
            // Below the text is the place in the script.
            mlua::Error::RuntimeError(text) => match text.split_once("\nstack traceback:") {
                Some((text, _)) => text.to_owned(),
                None => text.clone(),
            },
            mlua::Error::SyntaxError { message, .. } => {
                format!("ERR Error compiling script (new function): {message}")
            }
            other => other.to_string(),
        }
    };
    text.replace(['\r', '\n'], " ")
}

/// The error at the bottom of the layers that the callbacks put around it.
fn root(error: &mlua::Error) -> &mlua::Error {
    match error {
        mlua::Error::CallbackError { cause, .. } | mlua::Error::WithContext { cause, .. } => {
            root(cause)
        }
        other => other,
    }
}
