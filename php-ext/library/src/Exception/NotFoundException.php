<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The requested tool, model, chat or approval does not exist. */
class NotFoundException extends PillionException
{
    public string $errorCode = 'not_found';
}
