-- Builds what a script sees as its globals.
-- takes the engine's functions: call, pcall, raise, describe, random, randomseed
-- gives the environment of scripts, and the table behind it in which the engine puts KEYS and ARGV
--
-- A script can read what is listed here and nothing else, and can change none of it, so no call leaves anything
-- behind for the next. Errors that the engine raises are values of its own: a script's pcall sees their text.
local engine = ...
local error, pcall, setmetatable, type = error, pcall, setmetatable, type

local function refuse()
    error('Attempt to modify a readonly table', 2)
end

local function readonly(members)
    return setmetatable({}, {__index = members, __newindex = refuse})
end

local function caught(ok, problem, ...)
    if ok or type(problem) ~= 'userdata' then
        return ok, problem, ...
    end
    return false, engine.describe(problem)
end

-- The one function that turns code into a value; strings reach it as a method too.
string.dump = nil
math.randomseed = engine.randomseed
math.random = function(...)
    local part, count, low, high = engine.random(), select('#', ...), ...
    if count == 0 then
        return part
    elseif count == 1 then
        low, high = 1, low
    elseif count > 2 then
        error('wrong number of arguments', 2)
    end
    if low > high then
        error("bad argument #" .. count .. " to 'random' (interval is empty)", 2)
    end
    return math.floor(part * (high - low + 1)) + low
end

local members = {
    redis = readonly({
        call = engine.call,
        pcall = engine.pcall,
        error_reply = function(text)
            text = string.gsub(text, '^%-', '')
            return {err = string.find(text, ' ', 1, true) and text or 'ERR ' .. text}
        end,
        status_reply = function(text)
            return {ok = text}
        end,
    }),
    string = readonly(string),
    table = readonly(table),
    math = readonly(math),
    assert = assert,
    ipairs = ipairs,
    next = next,
    pairs = pairs,
    select = select,
    tonumber = tonumber,
    tostring = tostring,
    type = type,
    unpack = unpack,
    pcall = function(...)
        return caught(pcall(...))
    end,
    error = function(problem, level)
        if type(problem) == 'table' then
            engine.raise(problem)
        end
        level = level or 1
        error(problem, level == 0 and 0 or level + 1)
    end,
}
setmetatable(members, {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
})
return readonly(members), members
