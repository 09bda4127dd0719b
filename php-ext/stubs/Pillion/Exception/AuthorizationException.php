<?php

namespace Pillion\Exception;

/**
 * The MCP server requires a credential or rejects the one that it received, or no credential could be
 * obtained.
 */
class AuthorizationException extends PillionException
{
    /** The HTTP status 401 or 403, if the server rejected the request. */
    public ?int $httpStatus = null;
    /** The `WWW-Authenticate` challenge of the server, without secrets. */
    public ?string $challenge = null;
    /** The authorization page for the user, if an authorization has been prepared. */
    public ?string $authorizationUrl = null;
    /**
     * The scopes that the server requires.
     *
     * @var list<string>
     */
    public array $scopes = [];
}
