"""The checks of OAUTHBEARER's tokens: by keys, by a function of the user's, or by nothing at all.

No sentence here has a token, or a part of it, but the name of its user.
"""

import time

from apportion.exports import attribute_of, install_command
from apportion.node.sasl_settings import (
    JwtRules,
    TokenCheckFunction,
    TokenRules,
    UnsecuredRules,
)
from apportion.node.settings import SettingRefused
from apportion.security.claims import unsecured_verdict
from apportion.security.oauthbearer import (
    TokenAccepted,
    TokenCheck,
    TokenRejected,
    TokenVerdict,
)
from apportion.server.token_threads import Checker


def checker_of(rules: TokenRules) -> Checker:
    """Return the check of tokens by these rules.

    Errors: SettingRefused for a function or a file of keys that cannot be loaded.
    """
    match rules:
        case TokenCheckFunction():
            return _function_checker(rules.name)
        case UnsecuredRules():
            return lambda asked: unsecured_verdict(
                asked.token, rules.name_claim, rules.skew_s, time.time()
            )
        case JwtRules():
            # Imported here: it needs PyJWT and cryptography, which most brokers do without.
            try:
                from apportion.server.jwt_checks import JwtChecker
            except ImportError:
                raise SettingRefused(
                    f"signed tokens of OAUTHBEARER need PyJWT: {install_command('security')}."
                ) from None
            return JwtChecker(rules)


def _function_checker(name: str) -> Checker:
    """Return the check by a function of the user's. Errors: SettingRefused."""
    setting = "sasl.server.callback.handler.class"
    module, colon, path = name.partition(":")
    try:
        function = attribute_of(module, path) if colon else None
    # A module may raise whatever it likes, and end the process, too.
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {error}"
        raise SettingRefused(f"{setting}: {name} cannot be loaded: {why}.") from error
    if not callable(function):
        raise SettingRefused(
            f"{setting} must name a Python function as module:function, not {name!r}."
        )

    def verdict(asked: TokenCheck) -> TokenVerdict:
        try:
            found = function(asked.token)
        # Whatever it is: otherwise it ends the thread, which looks at the tokens of others, too.
        # Not its text, which may have the token.
        except BaseException as error:
            return TokenRejected(f"the function {name} raised {type(error).__name__}")
        match found:
            case (str(user), int() | float() as expires_at_s) if user:
                return TokenAccepted(user, int(expires_at_s * 1000))
            case None:
                return TokenRejected(f"the function {name} does not accept the token")
        return TokenRejected(
            f"the function {name} must return the user and the second since 1970 when the token "
            f"ends, or None, not a {type(found).__name__}"
        )

    return verdict
