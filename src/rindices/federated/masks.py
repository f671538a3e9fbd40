"""The key of a site, the sites that it accepted, and the masks that it adds to its sums (extra ``federated``).

Each site makes its own key pair (X25519). Two sites derive the same random numbers from the private key of one and the
public key of the other, for each request anew (HKDF-SHA-256 with the digest of the request, then ChaCha20); one adds
them to its sums and the other subtracts them. So an answer alone is random, and the masks cancel in the total of all
sites, if all of them were shown the same request to the bit.

A centre that replaced public keys could read everything. So people compare the fingerprints of the sites by another
way, such as the telephone, and a site answers only if the request names exactly the sites that it accepted.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rindices._typing import AnyArray
from rindices.atomic import write_json
from rindices.errors import join_names
from rindices.federated import secure
from rindices.federated.messages import Answer, RefusedError, Request, WaitingError

KEY_FILE, ACCEPTED_FILE = "masks.key", "accepted.json"


def compute_fingerprint(name: str, key: str) -> str:
    """Return the fingerprint of a site: 32 hexadecimal digits in groups of four."""
    digits = hashlib.sha256(f"{name}\n{key}".encode()).hexdigest()[:32]
    return "-".join(digits[start : start + 4] for start in range(0, 32, 4))


@dataclass(frozen=True)
class SiteKey:
    """Private key of a site, and what its people agreed on with those of other sites.

    accepted: fingerprints of the other sites; left: first round without a site, of those that left.
    """

    private: X25519PrivateKey
    accepted: frozenset[str] = frozenset()
    left: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, accept: Sequence[str] = (), left: Mapping[str, int] | None = None) -> "SiteKey":
        """Return the key in a folder, where it is made at the first call, and add to what was agreed on."""
        path, agreed_path = folder / KEY_FILE, folder / ACCEPTED_FILE
        if not path.exists() or not path.read_text("utf-8"):
            path.touch(mode=0o600)
            path.write_text(X25519PrivateKey.generate().private_bytes_raw().hex() + "\n", "utf-8")
        agreed = json.loads(agreed_path.read_text("utf-8")) if agreed_path.exists() else {"accepted": [], "left": {}}
        accepted = sorted({*agreed["accepted"], *(text.strip().lower() for text in accept)})
        all_left: dict[str, int] = {**agreed["left"], **(left or {})}
        if {"accepted": accepted, "left": all_left} != agreed:
            write_json(agreed_path, {"accepted": accepted, "left": all_left})
        private = X25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text("utf-8").strip()))
        return cls(private, frozenset(accepted), all_left)

    @property
    def public(self) -> str:
        """Public key, in hexadecimal digits."""
        return self.private.public_key().public_bytes_raw().hex()

    def check_sites(self, name: str, request: Request, sizes: Mapping[str, int]) -> None:
        """Refuse a request to the site of a name that does not name the sites that were agreed on.

        sizes: number of people of the site by group. Raises WaitingError: where the people of the site can agree.
        """
        sites: secure.Sites = request.settings["sites"]
        if dict(sites.get(name, {})) != {"key": self.public, **sizes}:
            raise RefusedError(f"another-key: the request names another key or other numbers of people of {name}.")
        others = {compute_fingerprint(each, entry["key"]): each for each, entry in sites.items() if each != name}
        if unknown := sorted(set(others) - self.accepted):
            names = join_names([f"{others[each]} ({each})" for each in unknown])
            raise WaitingError(f"not accepted here: {names}. Compare it with the site by telephone, then --accept it.")
        left = {each: entry["until"] for each, entry in sites.items() if "until" in entry}
        if self.accepted - set(others) or left != {each: n for each, n in self.left.items() if n <= request.round}:
            raise WaitingError(
                f"round {request.round} is not asked of all sites that were accepted here. If one of them left, ask it "
                "for its last round, then name the one after it here (--left SITE:ROUND)."
            )

    def derive_key(self, other: str, purpose: bytes) -> bytes:
        """Return a key that this site and the one with another public key share."""
        try:
            shared = self.private.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(other)))
        except (TypeError, ValueError) as error:
            raise RefusedError("another-key: the request names a key that is none.") from error
        return HKDF(SHA256(), 32, None, b"rindices " + purpose).derive(shared)

    def mask(self, site: str, answer: Answer, request: Request) -> AnyArray:
        """Return the sums of an answer of this site with the masks of all other sites, (n, 2)."""
        total = secure.write_numbers(answer, request)
        digest = bytes.fromhex(request.digest)
        for other in secure.list_sites(request):
            if other != site:
                key = self.derive_key(request.settings["sites"][other]["key"], b"masks" + digest)
                stream = Cipher(ChaCha20(key, bytes(16)), None).encryptor().update(bytes(total.nbytes))
                mask = np.frombuffer(stream, dtype="<u8").astype(np.uint64).reshape(total.shape)
                total = secure.add(total, mask if site < other else secure.negate(mask))
        return total
