<?php

namespace Pillion\Exception;

/** The sidecar has no tool of that name. */
class NotFoundException extends PillionException
{
}
