<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The input is invalid; sending the same input again cannot succeed. */
class InvalidInputException extends PillionException
{
    public string $errorCode = 'invalid_input';
}
