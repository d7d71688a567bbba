-- Keeps a tenure's hold on a plain lock alive, or only asks whether it is there (lease 0).
-- KEYS  1 lock, 2 holder details (optional)
-- ARGV  1 field of the tenure, 2 lease in ms
-- reply 1: held; 0: nothing is there; -1: somebody else is there
--
-- Ours: raise the lease if it is shorter than wanted, or missing. Not ours: write nothing. Details are for people: what
-- cannot be done about them is left out.
local lock, details = KEYS[1], KEYS[2]
local field, lease = ARGV[1], ARGV[2]

if redis.call('HEXISTS', lock, field) == 0 then
    return -redis.call('EXISTS', lock)
end
local wanted = tonumber(lease)
if wanted > 0 and redis.call('PTTL', lock) < wanted then
    redis.call('PEXPIRE', lock, lease)
    if details then
        redis.pcall('PEXPIRE', details, lease)
    end
end
return 1
