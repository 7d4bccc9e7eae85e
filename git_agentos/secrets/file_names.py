"""Names of files that hold secrets, as far as names say so."""

from __future__ import annotations

from fnmatch import fnmatchcase

# Patterns for every component of a path, in lower case: on some file systems `.ENV` is `.env`, and a key is a key
# wherever it lies. A pattern that matches too much (`secretary.md`) costs a rename, a missing one costs a key.
_NAMES = (
    # settings of an application
    ".env*", "*.env", "*secret*", "*credentials*", "*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json",
    "application_default_credentials*", "service-account*.json", "service_account*.json", "*.publishsettings",
    # keys and certificates
    "*.pem", "*.key", "*.p12", "*.pfx", "*.pkcs12", "*.p8", "*.jks", "*.keystore", "*.ppk", "*.ovpn", "*.agekey",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "identity.age", "*.mobileprovision",
    # stores of passwords
    "*.kdb", "*.kdbx", "*.agilekeychain", "*.opvault", "*.keychain", "*.keychain-db", "*.gpg", "*.pgp",
    # what tools remember of their users
    ".netrc", "_netrc", ".pypirc", ".npmrc", ".yarnrc*", ".pgpass", ".my.cnf", ".mylogin.cnf", ".htpasswd", "htpasswd",
    ".git-credentials", ".dockercfg", ".docker", ".s3cfg", ".boto", ".terraformrc", "terraform.rc", ".vault-token",
    "kubeconfig*", "*.kubeconfig", ".kube", ".aws", ".azure", ".gcloud", ".ssh", ".gnupg", ".password-store",
    ".*_history", ".lesshst",
)  # fmt: skip
# What shows how such a file is written, and has no secrets in it.
_EXAMPLES = (".example", ".sample", ".template", ".dist", ".defaults", ".pub")


def pattern_of(path: str) -> str | None:
    """The pattern that a component of `path` matches; None if none does."""
    parts = [part.casefold() for part in path.split("/")]
    return next((each for part in parts for each in _NAMES if fnmatchcase(part, each)), None)


def is_example(path: str) -> bool:
    """Whether the name says that the file is an example of one with secrets, or the public part of a key."""
    return path.casefold().endswith(_EXAMPLES)
