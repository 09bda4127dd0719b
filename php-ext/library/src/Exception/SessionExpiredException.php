<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The MCP server no longer knows the session, and the request failed in a new session as well. */
class SessionExpiredException extends TransportException
{
}
