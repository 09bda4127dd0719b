<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The MCP server wants a credential, or a better one, or none could be had. */
class AuthorizationException extends PillionException
{
    /** 401 or 403, where the server said no. */
    public ?int $httpStatus = null;
    /** What the server asks for (`WWW-Authenticate`), without what may be secret. */
    public ?string $challenge = null;
    /** The page where a person can give the authorization, where one has been prepared. */
    public ?string $authorizationUrl = null;
    /**
     * The scopes that are wanted.
     *
     * @var list<string>
     */
    public array $scopes = [];
}
