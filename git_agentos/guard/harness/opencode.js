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

export const GitAgentos = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const reply = ask({
      event: "tool.execute.before", tool: input.tool, args: output.args, sessionID: input.sessionID, cwd: directory,
    })
    if (reply.decision === "deny") throw new Error(reply.reason)
  },
  "tool.execute.after": async (input) => {
    if (!["bash", "edit", "write", "multiedit", "patch", "apply_patch"].includes(input.tool)) return
    record({
      event: "tool.execute.after", tool: input.tool, args: input.args, sessionID: input.sessionID, cwd: directory,
    })
  },
  "chat.message": async (input, output) => {
    const prompt = (output.parts || []).map((part) => part.text || "").join("\n")
    record({ event: "chat.message", prompt, sessionID: input.sessionID, cwd: directory })
  },
  event: async ({ event }) => {
    if (event.type !== "session.idle") return
    record({ event: "session.idle", sessionID: event.properties.sessionID, cwd: directory })
  },
})
