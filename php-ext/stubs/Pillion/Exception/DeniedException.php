<?php

namespace Pillion\Exception;

/** Somebody, or a policy, said no. */
class DeniedException extends PillionException
{
    public string $errorCode = 'denied';
}
