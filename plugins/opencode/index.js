// The plugin of git-agentos for opencode 1.18 (`server`) and 2 (`setup`): its hooks, its MCP server and its skill.
import { readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import hooks from "./hooks.js"

const NAME = "git-agentos"
const SERVER = { type: "local", command: ["git", "agentos", "mcp"] }
const SKILLS = join(dirname(fileURLToPath(import.meta.url)), "skills")

const server = async (input) => ({
  ...(await hooks.server(input)),
  config: async (config) => {
    config.mcp = { [NAME]: { ...SERVER, enabled: true }, ...config.mcp }
    config.skills = { ...config.skills, paths: [...(config.skills?.paths ?? []), SKILLS] }
  },
})

const setup = async (ctx) => {
  await ctx.mcp.transform((servers) => {
    if (servers.get(NAME) === undefined) servers.set(NAME, SERVER)
  })
  const location = join(SKILLS, NAME, "SKILL.md")
  const [, head, content] = readFileSync(location, "utf8").split(/^---\n/m)
  const description = /^description: (.*)$/m.exec(head)[1]
  await ctx.skill.transform((skills) => skills.add({ id: NAME, name: NAME, description, location, content }))
  return hooks.setup(ctx)
}

export default { id: hooks.id, server, setup }
