"""Access to the Hub: its client, what a token may do there, and whether an error is temporary."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from huggingface_hub import HfApi
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalTokenNotFoundError, RepositoryNotFoundError
from huggingface_hub.utils import validate_repo_id

TRANSIENT = (408, 412, 429)  # client errors that may pass: timeout, another commit came first, too many requests


def require_write_access(repo_id: str, *, create_pr: bool = False, token: str | None = None) -> str:
    """Ask the Hub whether this token may push to a repository, for example before a long training.

    Returns:
        The name of the token's account.

    Raises:
        ValueError: the id is invalid, or HF_ENDPOINT contains a password.
        PermissionError: there is no token, the Hub does not know it, or it may not write there.
        ConnectionError: the Hub does not answer.
        FileNotFoundError: a pull request for a repository that does not exist.
    """
    require_repo_id(repo_id)
    namespace, api = repo_id.partition("/")[0], client(token)
    try:
        with answering(api):
            user: dict[str, Any] = api.whoami()
    except LocalTokenNotFoundError as error:
        raise PermissionError("there is no token; run `hf auth login`, or set HF_TOKEN") from error
    except HfHubHTTPError as error:
        if error.response.status_code not in (401, 403):
            raise ConnectionError(f"what answers at {api.endpoint} is not a Hub: {error}") from error
        raise PermissionError("the Hub does not know this token; run `hf auth login` with another one") from error
    account = str(user["name"])
    if not create_pr and user.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise PermissionError(f"the token of {account} may only read; make one that may write in the Hub's settings")
    try:
        with answering(api):
            api.auth_check(repo_id, write=not create_pr)
    except GatedRepoError as error:
        raise PermissionError(f"{repo_id} is gated; ask for access on its page, as {account}") from error
    except RepositoryNotFoundError as error:
        if create_pr:
            raise FileNotFoundError(f"there is no {repo_id} to open a pull request on") from error
        own = [account, *(organization["name"] for organization in user.get("orgs", []))]
        if namespace not in own:
            raise PermissionError(
                f"there is no {repo_id}, and {account} cannot make it; choose one of {', '.join(own)} as owner"
            ) from error
    except HfHubHTTPError as error:
        raise PermissionError(
            f"{account} may not write to {repo_id}; push to a repository of your own, or open a pull request"
        ) from error
    return account


def require_repo_id(repo_id: str) -> None:
    """Raise a ValueError unless this is an id that a repository of the Hub can have."""
    try:
        validate_repo_id(repo_id)
    except ValueError as error:  # of a class of huggingface_hub
        raise ValueError(f"repo_id must be owner/name, got {repo_id!r}: {error}") from error
    if "/" not in repo_id:
        raise ValueError(f"repo_id={repo_id!r} has no owner; write owner/{repo_id}")


def require_visibility(api: HfApi, repo_id: str, private: bool | None) -> None:
    """Raise a ValueError if the repository exists and is not as ``private`` as requested."""
    try:
        with answering(api):
            is_private = bool(api.model_info(repo_id).private)
    except RepositoryNotFoundError:
        return
    if private is not None and private != is_private:
        kind = "private" if is_private else "public"
        raise ValueError(f"{repo_id} exists and is {kind}; change that in its settings, or choose another name")


def client(token: str | None) -> HfApi:
    """The Hub's client. A password in HF_ENDPOINT raises an error: it would replace the token and show in every
    message.
    """
    api = HfApi(token=token)
    if "@" in urlsplit(api.endpoint).netloc:
        raise ValueError("HF_ENDPOINT has a user name or a password before an @; remove it and set HF_TOKEN")
    return api


@contextmanager
def answering(api: HfApi) -> Iterator[None]:
    """Turn a Hub that does not answer, or fails, into a ConnectionError; refusals pass unchanged."""
    try:
        yield
    except Exception as error:  # also one of the HTTP client, whose classes are not those of huggingface_hub
        if isinstance(error, LocalTokenNotFoundError) or is_refusal(error):
            raise
        has_answered = isinstance(error, HfHubHTTPError)
        said = f"the Hub at {api.endpoint} fails" if has_answered else f"no answer from the Hub at {api.endpoint}"
        raise ConnectionError(f"{said}: {error}") from error


def is_refusal(error: BaseException | None) -> bool:
    """Whether the Hub refused a request, here or in the cause of this error, and would refuse it again."""
    if not isinstance(error, HfHubHTTPError):
        return error is not None and is_refusal(error.__cause__)
    return error.response.is_client_error and error.response.status_code not in TRANSIENT
