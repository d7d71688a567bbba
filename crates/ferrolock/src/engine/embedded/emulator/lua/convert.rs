//! Values on their way into a script and out of it.

use std::sync::Arc;

use mlua::{Lua, Table, Value as LuaValue};

use super::super::commands::{Args, Reply};
use super::super::numbers;
use super::Raised;
use crate::protocol::call::{Arg, Value};

/// How deep a reply may nest.
const DEPTH_MAX: usize = 200;

/// `KEYS`.
pub(super) fn texts(lua: &Lua, texts: &[Arc<str>]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(texts.len(), 0)?;
    for text in texts {
        table.raw_push(&**text)?;
    }
    Ok(table)
}

/// `ARGV`.
pub(super) fn arguments(lua: &Lua, args: &[Arg]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(args.len(), 0)?;
    for arg in args {
        match arg {
            Arg::Bytes(bytes) => table.raw_push(lua.create_string(&**bytes)?)?,
            Arg::Int(number) => table.raw_push(number.to_string())?,
        }
    }
    Ok(table)
}

/// Adds a word of a command; `false`: it is neither text nor number.
pub(super) fn push_word(args: &mut Args, word: &LuaValue) -> bool {
    match word {
        LuaValue::String(text) => args.push(&text.as_bytes()),
        LuaValue::Number(number) => args.push_number(*number),
        // Whole numbers come in this shape; all of Lua 5.1's fit into a float without loss.
        LuaValue::Integer(number) => args.push_number(*number as f64),
        _ => return false,
    }
    true
}

/// What a script sees of a command's reply.
pub(super) fn reply(lua: &Lua, reply: Reply) -> mlua::Result<LuaValue> {
    Ok(match reply {
        Reply::Nil => LuaValue::Boolean(false),
        Reply::Int(number) => LuaValue::Number(number as f64),
        Reply::Bulk(bytes) => LuaValue::String(lua.create_string(bytes)?),
        Reply::Status(text) => single(lua, "ok", text)?,
        Reply::Error(text) => single(lua, "err", &text)?,
        Reply::List(replies) => {
            let table = lua.create_table_with_capacity(replies.len(), 0)?;
            for item in replies {
                table.raw_push(self::reply(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

fn single(lua: &Lua, field: &str, text: &str) -> mlua::Result<LuaValue> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(field, text)?;
    Ok(LuaValue::Table(table))
}

/// What the caller gets for a script's return value.
pub(super) fn value(value: LuaValue) -> mlua::Result<Value> {
    nested_value(value, DEPTH_MAX)
}

fn nested_value(value: LuaValue, depth: usize) -> mlua::Result<Value> {
    Ok(match value {
        LuaValue::Boolean(true) => Value::Int(1),
        LuaValue::Integer(number) => Value::Int(number),
        LuaValue::Number(number) => Value::Int(numbers::truncate(number)),
        LuaValue::String(text) => Value::Bytes(text.as_bytes().to_vec()),
        LuaValue::Table(table) => table_value(&table, depth)?,
        _ => Value::Nil,
    })
}

/// An error, a status, or a list up to its first hole.
fn table_value(table: &Table, depth: usize) -> mlua::Result<Value> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(raised("ERR reached lua stack limit"));
    };
    if let LuaValue::String(text) = table.raw_get("err")? {
        return Err(raised(&text.to_string_lossy()));
    }
    if let LuaValue::String(text) = table.raw_get("ok")? {
        return Ok(Value::Bytes(one_line(&text.as_bytes())));
    }
    let mut list = Vec::new();
    for at in 1_i64.. {
        match table.raw_get(at)? {
            LuaValue::Nil => break,
            item => list.push(nested_value(item, depth)?),
        }
    }
    Ok(Value::List(list))
}

/// A status ends at its line's end on a server's wire.
fn one_line(text: &[u8]) -> Vec<u8> {
    let no_break = |byte: &u8| if b"\r\n".contains(byte) { b' ' } else { *byte };
    text.iter().map(no_break).collect()
}

fn raised(text: &str) -> mlua::Error {
    mlua::Error::external(Raised(text.to_owned()))
}
