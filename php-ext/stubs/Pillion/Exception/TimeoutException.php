<?php

namespace Pillion\Exception;

/** The timeout elapsed before the operation finished. */
class TimeoutException extends PillionException
{
    public string $errorCode = 'timeout';
}
