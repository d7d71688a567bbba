//! The engine layer by layer: commands, scripts, sandbox, and the whole as an `Engine`.

mod collections;
mod commands;
#[cfg(target_os = "linux")]
mod differential;
mod engine;
mod fair_scripts;
mod fenced_scripts;
mod lock_scripts;
mod rw_downgrade_scripts;
mod rw_model;
mod rw_places;
mod rw_scripts;
mod rw_table;
mod rw_upkeep_scripts;
mod sandbox;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::MemoryEngine;
use crate::engine::{Engine, Failure, Lane};
use crate::protocol::call::{Arg, Call, Form, Script, Value};

/// Polls a future of the engine to its end; it needs no runtime and no more than two polls.
fn finish<F: Future + Unpin>(mut future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut context) {
            return output;
        }
    }
    panic!("the future is still pending at its second poll");
}

fn run(engine: &MemoryEngine, call: Call) -> Result<Value, Failure> {
    finish(engine.call(Lane::Commands, call))
}

/// Runs a script text with one key and arguments.
fn eval(engine: &MemoryEngine, source: &str, args: &[&str]) -> Result<Value, Failure> {
    run(engine, text_call(source, args))
}

fn text_call(source: &str, args: &[&str]) -> Call {
    // Scripts are statics: the compiled ones are found by their address.
    let script = Box::leak(Box::new(Script::new(
        "user_script",
        Box::leak(source.to_owned().into_boxed_str()),
    )));
    Call {
        script,
        keys: smallvec::smallvec!["k".into()],
        args: args
            .iter()
            .map(|&arg| Arg::Bytes(arg.as_bytes().into()))
            .collect(),
        form: Form::default(),
    }
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

fn refused(code: &str, message: &str) -> Result<Value, Failure> {
    Err(Failure::Refused {
        code: code.to_owned(),
        message: message.to_owned(),
    })
}
