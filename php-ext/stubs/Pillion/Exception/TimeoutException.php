<?php

namespace Pillion\Exception;

/** The time was over first. */
class TimeoutException extends PillionException
{
    public string $errorCode = 'timeout';
}
