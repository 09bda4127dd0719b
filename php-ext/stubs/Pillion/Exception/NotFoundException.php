<?php

namespace Pillion\Exception;

/** The sidecar has no tool of that name. */
class NotFoundException extends PillionException
{
    public string $errorCode = 'not_found';
}
