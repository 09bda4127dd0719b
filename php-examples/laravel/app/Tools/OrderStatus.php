<?php

declare(strict_types=1);

namespace App\Tools;

use Pillion\AsTool;
use Pillion\Parameter;

/** Says where an order is. */
#[AsTool(name: 'order_status')]
class OrderStatus
{
    /** @return array{order: int, status: string} */
    public function __invoke(
        #[Parameter(description: 'The number of the order')]
        int $order,
    ): array {
        return ['order' => $order, 'status' => $order % 2 === 0 ? 'delivered' : 'on its way'];
    }
}
