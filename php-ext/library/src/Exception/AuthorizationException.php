<?php

declare(strict_types=1);

namespace Pillion\Exception;

/**
 * The MCP server requires a credential or rejects the credential of the request, or Pillion could
 * not obtain a credential.
 */
class AuthorizationException extends PillionException
{
    /** The HTTP status 401 or 403, if the server rejected the request. */
    public ?int $httpStatus = null;
    /** The `WWW-Authenticate` challenge of the server, without secrets. */
    public ?string $challenge = null;
    /** The URL of the authorization page for the user, if Pillion has started an authorization. */
    public ?string $authorizationUrl = null;
    /**
     * The scopes that the server requires.
     *
     * @var list<string>
     */
    public array $scopes = [];
}
