<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The server does not know the session any more, and a new one did not help. */
class SessionExpiredException extends TransportException
{
}
