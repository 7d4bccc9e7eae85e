"""Names under which secrets are kept: a file that is called so, or lies in a folder that is, is not sent to anybody.

The patterns are compared with every component of a path, in lower case: on some file systems `.ENV` is `.env`, and a
key is a key wherever it lies. What they name too much (`secretary.md`) is refused: that costs a rename, the other way
round costs a key.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

SECRET_NAMES = (
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
# Not the project's own: what git and this tool keep beside it.
PRIVATE_FOLDERS = (".git", ".agentos")


def secret_name(path: str) -> str | None:
    """The pattern by which a component of `path` is called like a secret; None where none is."""
    parts = [part.casefold() for part in path.split("/")]
    return next((each for part in parts for each in SECRET_NAMES if fnmatchcase(part, each)), None)


def private_folder(path: str) -> str | None:
    """The folder in `path` that belongs to git or to this tool; None where there is none."""
    return next((part for part in path.split("/") if part.casefold() in PRIVATE_FOLDERS), None)
