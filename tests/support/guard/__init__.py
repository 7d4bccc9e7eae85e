"""What tests of the guard share: repositories, command lines, approvals, snapshots."""
