// git-agentos: written by 'git agentos guard integrate opencode'; '--remove' removes it.
import { spawnSync } from "node:child_process"

const COMMAND = @COMMAND@

const ask = (body) => {
  const child = spawnSync("/bin/sh", ["-c", COMMAND], { input: JSON.stringify(body), encoding: "utf8", cwd: body.cwd })
  if (child.status !== 0) throw new Error("git-agentos failed: " + (child.stderr || child.error))
  return JSON.parse(child.stdout || "{}")
}

const record = (body) => {
  try {
    ask(body)
  } catch {
    // A tool that has run is recorded where that is possible.
  }
}

// A sub-agent has a session of its own; what it does belongs to the session that has started it.
const outermostOf = new Map()
const outermost = async (client, id) => {
  if (!outermostOf.has(id)) {
    let found = id
    try {
      for (let parent = id; parent; ) {
        found = parent
        parent = (await client.session.get({ path: { id: parent } })).data?.parentID
      }
    } catch {
      found = id
    }
    outermostOf.set(id, found)
  }
  return outermostOf.get(id)
}

export const GitAgentos = async ({ directory, client }) => ({
  "tool.execute.before": async (input, output) => {
    const reply = ask({
      event: "tool.execute.before", tool: input.tool, args: output.args, cwd: directory,
      sessionID: await outermost(client, input.sessionID),
    })
    if (reply.decision === "deny") throw new Error(reply.reason)
  },
  "tool.execute.after": async (input) => {
    if (!["bash", "edit", "write", "multiedit", "patch", "apply_patch"].includes(input.tool)) return
    record({
      event: "tool.execute.after", tool: input.tool, args: input.args, cwd: directory,
      sessionID: await outermost(client, input.sessionID),
    })
  },
  "chat.message": async (input, output) => {
    if ((await outermost(client, input.sessionID)) !== input.sessionID) return
    const prompt = (output.parts || []).map((part) => part.text || "").join("\n")
    record({ event: "chat.message", prompt, sessionID: input.sessionID, cwd: directory })
  },
  event: async ({ event }) => {
    if (event.type !== "session.idle") return
    const id = event.properties.sessionID
    if ((await outermost(client, id)) !== id) return
    record({ event: "session.idle", sessionID: id, cwd: directory })
  },
})
