// git-agentos: the hooks of opencode. 'git agentos guard integrate opencode' writes this file into a worktree, and
// with '--remove' removes it.
// opencode 1.18 calls `server`, opencode 2 calls `setup`. A tool that must not run throws an error.
import { spawnSync } from "node:child_process"

const COMMAND = @COMMAND@

const ask = (body) => {
  const child = spawnSync("/bin/sh", ["-c", COMMAND], { input: JSON.stringify(body), encoding: "utf8", cwd: body.cwd })
  if (child.status !== 0) throw new Error("git-agentos failed: " + (child.stderr || child.error))
  return JSON.parse(child.stdout || "{}")
}

const decide = (body) => {
  const reply = ask(body)
  if (reply.decision === "deny") throw new Error(reply.reason)
}

const record = (body) => {
  try {
    ask(body)
  } catch {
    // What has happened is recorded where that is possible.
  }
}

const EDITING = ["bash", "shell", "edit", "write", "multiedit", "patch", "apply_patch"]

// A sub-agent has a session of its own; what it does belongs to the session that has started it.
const sessions = (parentOf) => {
  const known = new Map()
  return async (id) => {
    if (!known.has(id)) {
      let found = id
      try {
        for (let parent = id; parent; parent = await parentOf(parent)) found = parent
      } catch {
        found = id
      }
      known.set(id, found)
    }
    return known.get(id)
  }
}

const server = async ({ directory: cwd, client }) => {
  const outermost = sessions(async (id) => (await client.session.get({ path: { id } })).data?.parentID)
  return {
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) =>
      decide({ event: "tool.execute.before", tool, args, cwd, callID, sessionID: await outermost(sessionID) }),
    "tool.execute.after": async ({ tool, sessionID, callID, args }) => {
      if (!EDITING.includes(tool)) return
      record({ event: "tool.execute.after", tool, args, cwd, callID, sessionID: await outermost(sessionID) })
    },
    "chat.message": async ({ sessionID, messageID }, { parts }) => {
      if ((await outermost(sessionID)) !== sessionID) return
      const prompt = (parts || []).map((part) => part.text || "").join("\n")
      record({ event: "chat.message", prompt, sessionID, messageID, cwd })
    },
    "experimental.session.compacting": async ({ sessionID }) =>
      record({ event: "session.compacting", cwd, sessionID: await outermost(sessionID) }),
    event: async ({ event }) => {
      const { sessionID, info } = event.properties || {}
      if (event.type === "session.created" && !info.parentID) {
        record({ event: "session.created", sessionID: info.id, cwd })
      } else if (event.type === "session.idle") {
        const session = await outermost(sessionID)
        record({ event: session === sessionID ? "session.idle" : "subagent.idle", sessionID: session, agentID: sessionID, cwd })
      }
    },
  }
}

const setup = async (ctx) => {
  const cwd = ctx.location.directory
  const outermost = sessions(async (sessionID) => (await ctx.session.get({ sessionID })).parentID)
  const tools = async (event, name) =>
    ({ event: name, tool: event.tool, args: event.input, cwd, callID: event.id,
       sessionID: await outermost(event.sessionID) })
  await ctx.tool.hook("execute.before", async (event) => decide(await tools(event, "tool.execute.before")))
  await ctx.tool.hook("execute.after", async (event) => {
    if (EDITING.includes(event.tool)) record(await tools(event, "tool.execute.after"))
  })
  await ctx.session.hook("prompt", async ({ sessionID, messageID, prompt }) => {
    if ((await outermost(sessionID)) !== sessionID) return
    record({ event: "chat.message", prompt: prompt.text || "", sessionID, messageID, cwd })
  })
  await ctx.session.hook("compaction", async ({ sessionID }) =>
    record({ event: "session.compacting", cwd, sessionID: await outermost(sessionID) }))
  const controller = new AbortController()
  const ends = ["session.execution.succeeded", "session.execution.failed", "session.execution.interrupted"]
  const listen = async () => {
    // The events are those of all folders: a session is of this one if its folder says so.
    for await (const { type, data } of ctx.event.subscribe({ signal: controller.signal })) {
      if (!ends.includes(type)) continue
      const found = await ctx.session.get({ sessionID: data.sessionID })
      if ((found.location?.directory ?? cwd) !== cwd) continue
      const session = await outermost(data.sessionID)
      const name = session === data.sessionID ? "session.idle" : "subagent.idle"
      record({ event: name, sessionID: session, agentID: data.sessionID, cwd })
    }
  }
  listen().catch(() => {})
  return () => controller.abort()
}

export default { id: "git-agentos", server, setup }
