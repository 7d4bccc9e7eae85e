"""What the tests share: a sealed environment, repositories, complete states, scenarios and wrecks."""
