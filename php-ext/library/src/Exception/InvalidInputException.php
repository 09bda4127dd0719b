<?php

declare(strict_types=1);

namespace Pillion\Exception;

/** The input is wrong; sending it again cannot help. */
class InvalidInputException extends PillionException
{
    public string $errorCode = 'invalid_input';
}
