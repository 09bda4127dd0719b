<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The server no longer knows the session, and a new session did not help. */
class SessionExpiredException extends TransportException
{
}
